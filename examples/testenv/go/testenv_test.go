package testenv

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

func TestAHostStartsAndForgetsEverything(t *testing.T) {
	for range 2 {
		environment := Environment{Binary: os.Getenv("HOMEOSTAT")}
		config, err := environment.Start()
		if err != nil {
			t.Fatal(err)
		}
		// The encoding of most operators.
		config.ContentType = "application/vnd.kubernetes.protobuf"
		clients := kubernetes.NewForConfigOrDie(config)
		made := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"b": "c"}}
		if _, err := clients.CoreV1().ConfigMaps("default").Create(context.Background(), &made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := environment.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// definition is what controller-gen writes to config/crd/bases.
const definition = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations: {controller-gen.kubebuilder.io/version: v0.19.0}
  name: sites.example.com
spec:
  group: example.com
  names: {kind: Site, listKind: SiteList, plural: sites, singular: site}
  scope: Namespaced
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec: {type: object, properties: {replicas: {default: 1, format: int32, type: integer}}}
          status: {type: object}
    served: true
    storage: true
    subresources: {status: {}}
`

func TestAHostHasTheDefinitionsOfAFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "example.com_sites.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := Environment{Binary: os.Getenv("HOMEOSTAT"), CRDDirectoryPaths: []string{t.TempDir(), folder}}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer environment.Stop()
	sites := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "sites"}
	made := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{},
	}}
	client := dynamic.NewForConfigOrDie(config).Resource(sites).Namespace("default")
	stored, err := client.Create(context.Background(), &made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if replicas, _, _ := unstructured.NestedInt64(stored.Object, "spec", "replicas"); replicas != 1 {
		t.Fatal(stored)
	}
}
