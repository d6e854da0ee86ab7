// Command manager is an operator with the default settings of controller-runtime: a typed client with a cache, leader
// election, events, finalizers and server-side apply. For each ConfigMap with the label demo.dev/app it makes a Deployment
// that it owns, and deletes a ConfigMap beside it when the first one goes.
//
// Usage: manager, with KUBECONFIG set.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	label     = "demo.dev/app"
	finalizer = "demo.dev/cleanup"
)

type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var app corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	image, is := app.Labels[label]
	if !is {
		return ctrl.Result{}, nil
	}
	if !app.DeletionTimestamp.IsZero() {
		trace := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name + "-trace", Namespace: app.Namespace}}
		if err := r.Delete(ctx, &trace); err != nil && !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&app, finalizer)
		return ctrl.Result{}, r.Update(ctx, &app)
	}
	if controllerutil.AddFinalizer(&app, finalizer) {
		if err := r.Update(ctx, &app); err != nil {
			return ctrl.Result{}, err
		}
	}
	trace := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name + "-trace", Namespace: app.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, &trace, func() error {
		trace.Data = map[string]string{"image": image}
		return nil
	}); err != nil {
		return ctrl.Result{}, err
	}
	labels := map[string]string{"app": app.Name}
	owner := applymeta.OwnerReference().WithAPIVersion("v1").WithKind("ConfigMap").WithName(app.Name).WithUID(app.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	deployment := applyapps.Deployment(app.Name, app.Namespace).WithOwnerReferences(owner).WithSpec(applyapps.DeploymentSpec().
		WithReplicas(2).WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).
			WithSpec(applycore.PodSpec().WithContainers(applycore.Container().WithName("app").WithImage(image)))))
	if err := r.Apply(ctx, deployment, client.FieldOwner("manager"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	var made appsv1.Deployment
	if err := r.Get(ctx, request.NamespacedName, &made); err == nil {
		r.recorder.Eventf(&app, &made, corev1.EventTypeNormal, "Applied", "Apply", "the deployment has %s", image)
	}
	return ctrl.Result{}, client.IgnoreNotFound(nil)
}

func main() {
	ctrl.SetLogger(zap.New())
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: "manager.demo.dev", LeaderElectionNamespace: "default",
		Metrics: server.Options{BindAddress: "0"},
	})
	if err == nil {
		this := &reconciler{Client: manager.GetClient(), recorder: manager.GetEventRecorder("manager")}
		err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(this)
	}
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
