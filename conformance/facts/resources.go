package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strings"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func fetch(path string, into interface{}) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	request, err := http.NewRequest("GET", os.Getenv("KUBEWRIGHT_SERVER")+path, nil)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("KUBEWRIGHT_TOKEN"))
	answer, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		panic(err)
	}
}

func orDash(parts []string) string {
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ",")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func printResources() {
	fmt.Println("# Resources in the order of discovery, from a running reference server. Regenerate with `make facts`.")
	fmt.Println("# groupVersion resource singular kind scope verbs shortNames categories foreignGroupVersion storageVersionHash")
	known := map[schema.GroupVersion]bool{}
	for _, gv := range versions {
		known[gv] = true
	}
	order := []schema.GroupVersion{{Version: "v1"}}
	var groups meta.APIGroupList
	fetch("/apis", &groups)
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			if known[gv] {
				order = append(order, gv)
			}
		}
	}
	for _, gv := range order {
		path := "/apis/" + gv.String()
		if gv.Group == "" {
			path = "/api/v1"
		}
		var list meta.APIResourceList
		fetch(path, &list)
		for _, r := range list.APIResources {
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			verbs := []string(r.Verbs)
			sort.Strings(verbs)
			foreign := "-"
			if r.Group != "" || r.Version != "" {
				foreign = r.Group + "/" + r.Version
			}
			fmt.Println(gv.String(), r.Name, dash(r.SingularName), r.Kind, scope, orDash(verbs),
				orDash(r.ShortNames), orDash(r.Categories), foreign, dash(r.StorageVersionHash))
		}
	}
}
