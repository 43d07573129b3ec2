package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "bench.kubewright.dev", Version: "v1"}

// Site is a page and what it takes to serve it.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

type SiteSpec struct {
	Image string `json:"image"`
	Page  string `json:"page"`
}

// SiteStatus says whether it is served.
type SiteStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

// What controller-gen would write.

func (in *Site) DeepCopy() *Site {
	out := &Site{TypeMeta: in.TypeMeta, Spec: in.Spec}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.ObservedGeneration = in.Status.ObservedGeneration
	for _, condition := range in.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
	return out
}

func (in *Site) DeepCopyObject() runtime.Object { return in.DeepCopy() }

func (in *SiteList) DeepCopyObject() runtime.Object {
	out := &SiteList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for _, item := range in.Items {
		out.Items = append(out.Items, *item.DeepCopy())
	}
	return out
}
