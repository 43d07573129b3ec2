// The operator that is measured, written with controller-runtime.
package main

import (
	"context"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const workers = 8

type publisher struct {
	client.Client
}

func (p *publisher) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := p.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for _, child := range children(site) {
		if err := p.Apply(ctx, child, client.FieldOwner("bench"), client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	before := site.DeepCopy()
	site.Status.ObservedGeneration = site.Generation
	meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Published", Status: metav1.ConditionTrue, Reason: "Applied",
		Message: "all children are applied", ObservedGeneration: site.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, site.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, p.Status().Patch(ctx, site, client.MergeFrom(before))
}

func children(site *Site) []runtime.ApplyConfiguration {
	owner := metav1ac.OwnerReference().
		WithAPIVersion(groupVersion.String()).WithKind("Site").WithName(site.Name).WithUID(site.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	labels := map[string]string{"site": site.Name}
	page := corev1ac.ConfigMap(site.Name, site.Namespace).
		WithOwnerReferences(owner).
		WithData(map[string]string{"index.html": site.Spec.Page})
	deployment := appsv1ac.Deployment(site.Name, site.Namespace).
		WithOwnerReferences(owner).
		WithSpec(appsv1ac.DeploymentSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().
				WithContainers(corev1ac.Container().WithName("web").WithImage(site.Spec.Image)))))
	service := corev1ac.Service(site.Name, site.Namespace).
		WithOwnerReferences(owner).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP("None").
			WithSelector(labels).
			WithPorts(corev1ac.ServicePort().WithPort(80)))
	return []runtime.ApplyConfiguration{page, deployment, service}
}

func main() {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(addToScheme(scheme))
	if err := run(scheme); err != nil {
		ctrl.Log.Error(err, "the operator has ended")
		os.Exit(1)
	}
}

func run(scheme *runtime.Scheme) error {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: os.Getenv("METRICS_BIND_ADDRESS")},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Site{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&publisher{manager.GetClient()})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
