package main

import (
	"encoding/json"
	"fmt"
	"log"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// The kinds of the servers inside of an API server have schemes of their own.
func init() {
	utilruntime.Must(apiextensionsv1.AddToScheme(legacyscheme.Scheme))
	utilruntime.Must(apiregistrationv1.AddToScheme(legacyscheme.Scheme))
}

// goType returns the Go type of a kind.
func goType(of schema.GroupVersionKind) reflect.Type {
	switch of.Kind {
	case "DeleteOptions":
		return reflect.TypeFor[metav1.DeleteOptions]()
	case "Status":
		return reflect.TypeFor[metav1.Status]()
	case "PartialObjectMetadata":
		return reflect.TypeFor[metav1.PartialObjectMetadata]()
	}
	made, err := legacyscheme.Scheme.New(of)
	if err != nil {
		log.Fatal(err)
	}
	return reflect.TypeOf(made).Elem()
}

// Defaults that depend on other fields, which the empty resources of the probe do not show, or on the clock. The rules of the
// host set them.
var conditional = []string{
	"io.k8s.api.apps.v1.DaemonSetUpdateStrategy.rollingUpdate",
	"io.k8s.api.apps.v1.DeploymentStrategy.rollingUpdate",
	"io.k8s.api.apps.v1.StatefulSetUpdateStrategy.rollingUpdate",
	"io.k8s.api.core.v1.Container.imagePullPolicy",
	"io.k8s.api.core.v1.EphemeralContainer.imagePullPolicy",
	"io.k8s.api.core.v1.ImageVolumeSource.pullPolicy",
	"io.k8s.api.core.v1.ServiceSpec.internalTrafficPolicy",
	"io.k8s.api.core.v1.Volume.emptyDir",
	"io.k8s.api.networking.v1.NetworkPolicySpec.policyTypes",
	"io.k8s.api.resource.v1.DeviceTaint.timeAdded",
}

// probe finds the constant defaults: the values that the defaulting functions set in an otherwise empty resource.
type probe struct {
	table *definitions
	// Values by definition and property, as JSON texts.
	found map[string]map[string][]string
}

func newProbe(table *definitions) *probe {
	return &probe{table: table, found: map[string]map[string][]string{}}
}

// add probes one kind, twice: with every optional struct present, and with none.
func (p *probe) add(of schema.GroupVersionKind) {
	for _, full := range []bool{true, false} {
		made, err := legacyscheme.Scheme.New(of)
		if err != nil {
			log.Fatal(err)
		}
		populate(reflect.ValueOf(made).Elem(), full, nil)
		before := made.DeepCopyObject()
		defaulted(made)
		now := reflect.ValueOf(made).Elem()
		p.compare(now.Type(), reflect.ValueOf(before).Elem(), now)
	}
}

func defaulted(made runtime.Object) {
	defer func() {
		if failed := recover(); failed != nil {
			log.Printf("%T: %v", made, failed)
		}
	}()
	legacyscheme.Scheme.Default(made)
}

// populate gives every list of structs one item, and, if full, every pointer to a struct a value.
func populate(value reflect.Value, full bool, above []reflect.Type) {
	of := value.Type()
	if of.Kind() != reflect.Struct || isOpaque(of) || slices.Contains(above, of) || of.Name() == "ObjectMeta" {
		return
	}
	above = append(slices.Clone(above), of)
	for i := range of.NumField() {
		field := value.Field(i)
		switch {
		case field.Kind() == reflect.Struct:
			populate(field, full, above)
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct && !isOpaque(field.Type().Elem()):
			if full && !slices.Contains(above, field.Type().Elem()) {
				field.Set(reflect.New(field.Type().Elem()))
				populate(field.Elem(), full, above)
			}
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct && !isOpaque(field.Type().Elem()):
			if !slices.Contains(above, field.Type().Elem()) {
				field.Set(reflect.MakeSlice(field.Type(), 1, 1))
				populate(field.Index(0), full, above)
			}
		}
	}
}

// compare records the fields that were empty before and are not now. The fields of an inlined struct are those of the
// struct around it.
func (p *probe) compare(of reflect.Type, before, now reflect.Value) {
	if isOpaque(now.Type()) || now.Type().Name() == "ObjectMeta" {
		return
	}
	for i := range now.NumField() {
		name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("json"), ",")
		was, is := before.Field(i), now.Field(i)
		if name == "" && is.Kind() == reflect.Struct {
			p.compare(of, was, is)
			continue
		}
		switch {
		case name == "" || name == "-":
		case is.Kind() == reflect.Struct && !isOpaque(is.Type()):
			p.compare(is.Type(), was, is)
		case is.Kind() == reflect.Pointer && is.Type().Elem().Kind() == reflect.Struct && !isOpaque(is.Type().Elem()):
			if !was.IsNil() && !is.IsNil() {
				p.compare(is.Elem().Type(), was.Elem(), is.Elem())
			} else if was.IsNil() && !is.IsNil() {
				p.record(of, name, is)
			} else if was.IsNil() {
				p.record(of, name, reflect.Value{})
			}
		case is.Kind() == reflect.Slice && is.Type().Elem().Kind() == reflect.Struct && was.Len() > 0 && is.Len() > 0:
			p.compare(is.Index(0).Type(), was.Index(0), is.Index(0))
		case is.Kind() == reflect.Map:
		case !is.IsZero() && was.IsZero():
			p.record(of, name, is)
		case was.IsZero():
			p.record(of, name, reflect.Value{})
		}
	}
}

func (p *probe) record(of reflect.Type, name string, value reflect.Value) {
	set := "none"
	if value.IsValid() {
		encoded, err := json.Marshal(value.Interface())
		if err != nil {
			log.Fatal(err)
		}
		set = string(encoded)
	}
	definition := modelName(of)
	if p.found[definition] == nil {
		p.found[definition] = map[string][]string{}
	}
	if !slices.Contains(p.found[definition][name], set) {
		p.found[definition][name] = append(p.found[definition][name], set)
	}
}

// attach adds the defaults to the definitions. A value that is not set everywhere is left to the rules of the host.
func (p *probe) attach() {
	for _, definition := range sortedKeys(p.found) {
		for _, name := range sortedKeys(p.found[definition]) {
			values := p.found[definition][name]
			if slices.Equal(values, []string{"none"}) || slices.Contains(conditional, definition+"."+name) {
				continue
			}
			property, is := p.table.made[definition]["properties"].(object)[name].(object)
			if !is {
				continue
			}
			if len(values) > 1 {
				fmt.Printf("%s.%s varies: %s\n", definition, name, strings.Join(values, " or "))
				delete(property, "default")
				continue
			}
			var value any
			if err := json.Unmarshal([]byte(values[0]), &value); err != nil {
				log.Fatal(err)
			}
			property["default"] = value
		}
	}
}
