// Prints the data tables of the embedded API server. `types`: every field of every built-in kind with the
// facts that its JSON schema does not tell: whether it is a pointer, when it is left out, list types, patch
// strategies. `resources`: what a running reference server says in discovery. Built inside the reference
// module by conformance/facts.sh; never part of the product.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
)

var versions = []schema.GroupVersion{
	{Group: "", Version: "v1"},
	{Group: "apps", Version: "v1"},
	{Group: "batch", Version: "v1"},
	{Group: "autoscaling", Version: "v1"},
	{Group: "autoscaling", Version: "v2"},
	{Group: "policy", Version: "v1"},
	{Group: "networking.k8s.io", Version: "v1"},
	{Group: "rbac.authorization.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "discovery.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "storage.k8s.io", Version: "v1"},
	{Group: "scheduling.k8s.io", Version: "v1"},
	{Group: "certificates.k8s.io", Version: "v1"},
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiextensions.k8s.io", Version: "v1"},
	{Group: "authentication.k8s.io", Version: "v1"},
	{Group: "authorization.k8s.io", Version: "v1"},
	{Group: "apiregistration.k8s.io", Version: "v1"},
	{Group: "node.k8s.io", Version: "v1"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"},
	{Group: "resource.k8s.io", Version: "v1"},
}

// Types whose JSON is not that of their Go structure.
var scalars = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                               "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                          "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                           "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                           "any",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                           "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                         "intorstring",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                            "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":           "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "any",
}

func goName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// The definition's name as OpenAPI documents spell it.
func definitionName(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	host := strings.Split(path[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(append(host, path[1:]...), t.Name()), ".")
}

type generator struct {
	definitions map[string]common.OpenAPIDefinition
	seen        map[reflect.Type]bool
	queue       []reflect.Type
}

// The type of a field: `*` for a pointer, `[]` for a list, `{}` for a map, `@` for another type.
func (g *generator) describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + g.describe(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + g.describe(t.Elem())
	case reflect.Map:
		return "{}" + g.describe(t.Elem())
	case reflect.Struct:
		if s, ok := scalars[goName(t)]; ok {
			return s
		}
		if !g.seen[t] {
			g.seen[t] = true
			g.queue = append(g.queue, t)
		}
		return "@" + definitionName(t)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int, reflect.Int16, reflect.Int8, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		return "int32"
	case reflect.Int64, reflect.Uint64:
		return "int64"
	case reflect.Float64, reflect.Float32:
		return "double"
	case reflect.Interface:
		return "any"
	}
	panic("no description for " + t.String())
}

func text(v interface{}) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// The prefix of fields that have no place in the protobuf form.
const none = "-"

// The number of a field in the protobuf form; fields of a struct that JSON inlines stand inside a message of
// their own there, so that their number is a path.
func number(f reflect.StructField) string {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func (g *generator) fields(t reflect.Type, properties map[string]spec.Schema, required map[string]bool, prefix string, out map[string]string) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("json")
		parts := strings.Split(tag, ",")
		options := map[string]bool{}
		for _, o := range parts[1:] {
			options[o] = true
		}
		if !ok || parts[0] == "-" || !f.IsExported() {
			continue
		}
		if parts[0] == "" && (options["inline"] || f.Anonymous) {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			within := prefix
			if inner == reflect.TypeOf(meta.TypeMeta{}) {
				within = none // the envelope tells the type
			} else if n := number(f); n != "" {
				within += n + "."
			}
			g.fields(inner, properties, required, within, out)
			continue
		}
		line := g.describe(f.Type)
		if options["omitempty"] {
			line += " omitempty"
		}
		if options["omitzero"] {
			line += " omitzero"
		}
		if required[parts[0]] {
			line += " required"
		}
		p := properties[parts[0]]
		if v, ok := p.Extensions["x-kubernetes-list-type"].(string); ok {
			line += " list=" + v
		}
		if v, ok := p.Extensions["x-kubernetes-list-map-keys"].([]interface{}); ok {
			keys := []string{}
			for _, k := range v {
				keys = append(keys, k.(string))
			}
			line += " keys=" + strings.Join(keys, ",")
		}
		if v, ok := p.Extensions["x-kubernetes-map-type"].(string); ok {
			line += " map=" + v
		}
		if v := f.Tag.Get("patchStrategy"); v != "" {
			line += " patch=" + v
		}
		if v := f.Tag.Get("patchMergeKey"); v != "" {
			line += " mergekey=" + v
		}
		if p.Default != nil && text(p.Default) != "{}" && text(p.Default) != `""` {
			line += " default=" + text(p.Default)
		}
		if len(p.Enum) > 0 {
			line += " enum=" + text(p.Enum)
		}
		if n := number(f); n != "" && prefix != none {
			line += " #" + prefix + n
		}
		out[parts[0]] = line
	}
}

func printTypes() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	g := &generator{seen: map[reflect.Type]bool{}}
	g.definitions = generated.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })

	kinds := map[reflect.Type]string{}
	for _, gv := range versions {
		for kind, t := range scheme.KnownTypes(gv) {
			own := t.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/v1" && t.PkgPath() != "k8s.io/apimachinery/pkg/apis/meta/internalversion"
			if !own || strings.HasSuffix(kind, "Options") {
				continue
			}
			if _, list := t.FieldByName("Items"); list {
				continue
			}
			kinds[t] = gv.Group + "/" + gv.Version + " " + kind
			g.describe(t)
		}
	}
	for _, t := range []reflect.Type{
		reflect.TypeOf(meta.DeleteOptions{}), reflect.TypeOf(meta.Status{}), reflect.TypeOf(meta.ListMeta{}),
	} {
		g.describe(t)
	}

	blocks := map[string]string{}
	for len(g.queue) > 0 {
		t := g.queue[0]
		g.queue = g.queue[1:]
		definition, known := g.definitions[goName(t)]
		if !known {
			definition, known = g.definitions[definitionName(t)]
		}
		if !known {
			fmt.Fprintln(os.Stderr, "no OpenAPI definition:", goName(t))
		}
		required := map[string]bool{}
		for _, r := range definition.Schema.Required {
			required[r] = true
		}
		fields := map[string]string{}
		g.fields(t, definition.Schema.Properties, required, "", fields)
		head := definitionName(t)
		if k, ok := kinds[t]; ok {
			head += " kind " + k
		}
		if v, ok := definition.Schema.Extensions["x-kubernetes-map-type"].(string); ok {
			head += " map=" + v
		}
		names := []string{}
		for n := range fields {
			names = append(names, n)
		}
		sort.Strings(names)
		block := head + "\n"
		for _, n := range names {
			block += "  " + n + " " + fields[n] + "\n"
		}
		blocks[definitionName(t)] = block
	}
	order := []string{}
	for n := range blocks {
		order = append(order, n)
	}
	sort.Strings(order)
	fmt.Println("# Fields of the built-in kinds, from the Go types of Kubernetes. Regenerate with `make facts`.")
	for _, n := range order {
		fmt.Print(blocks[n])
	}
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "types" {
		printTypes()
	} else if len(os.Args) == 2 && os.Args[1] == "resources" {
		printResources()
	} else {
		fmt.Fprintln(os.Stderr, "usage: facts types|resources")
		os.Exit(2)
	}
}
