package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Measured is the kind of the guest status.
type Measured struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              measuredText `json:"spec"`
	Status            length       `json:"status,omitempty"`
}

type measuredText struct {
	Text string `json:"text"`
}

type length struct {
	Characters int `json:"characters"`
}

// MeasuredList is a list of them.
type MeasuredList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Measured `json:"items"`
}

// DeepCopyObject does what generated code does.
func (m *Measured) DeepCopyObject() runtime.Object {
	copied := *m
	m.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// DeepCopyObject does what generated code does.
func (l *MeasuredList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Measured, len(l.Items))
	for at := range l.Items {
		copied.Items[at] = *l.Items[at].DeepCopyObject().(*Measured)
	}
	return &copied
}

// statusWriter writes the length of each text into its status.
type statusWriter struct {
	client client.Client
}

func (w statusWriter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var measured Measured
	if err := w.client.Get(ctx, request.NamespacedName, &measured); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	characters := utf8.RuneCountInString(measured.Spec.Text)
	if measured.Status.Characters == characters {
		return reconcile.Result{}, nil
	}
	measured.Status.Characters = characters
	return reconcile.Result{}, w.client.Status().Update(ctx, &measured)
}

// control runs a manager with one controller in a cluster, until the driver ends it.
func control(size size, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// No limit on the client's side. It is what controller-runtime's own function for configurations does.
	config.QPS = -1
	version := schema.GroupVersion{Group: "demo.homeostat.dev", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Measured{}, &MeasuredList{})
	metav1.AddToGroupVersion(scheme, version)
	ours, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(ours).For(&Measured{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: size.workers}).
		Complete(statusWriter{ours.GetClient()})
	if err != nil {
		return err
	}
	return obey(func() {
		if err := ours.Start(context.Background()); err != nil {
			panic(err)
		}
	})
}

// obey prints the memory of this process, starts the work at the first line of standard input, and prints the
// memory again for each further line. It returns at the end of the input.
func obey(work func()) error {
	lines := bufio.NewScanner(os.Stdin)
	if err := printMemory(); err != nil || !lines.Scan() {
		return err
	}
	go work()
	for lines.Scan() {
		if err := printMemory(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func printMemory() error {
	bytes, err := residentBytes()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(values{"resident": float64(bytes)})
}
