// Command documents encodes and decodes resources with client-go's types. It prints a JSON object in a line for each,
// with the resource in JSON and in protobuf. Without flags it reads such lines, decodes the protobuf of each, and prints
// what it has read. With -groups it generates resources of every kind of these groups.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log"
	"math/rand"
	"os"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

// document is one line of output.
type document struct {
	JSON     json.RawMessage `json:"json"`
	Protobuf []byte          `json:"protobuf"`
}

// fills returns the functions for types whose random values have no meaning. They win over those of Kubernetes.
func fills(serializer.CodecFactory) []any {
	object := func(c randfill.Continue) []byte {
		raw, err := json.Marshal(map[string]any{c.String(8): c.String(8), "n": c.Int31(), "l": []bool{c.Bool()}})
		if err != nil {
			log.Fatal(err)
		}
		return raw
	}
	return []any{
		func(amount *resource.Quantity, c randfill.Continue) {
			texts := []string{"0", "1", "100m", "1500m", "2Gi", "1e3", "12345678901234567890", "0.5", "-3k"}
			*amount = resource.MustParse(texts[c.Intn(len(texts))])
		},
		func(either *intstr.IntOrString, c randfill.Continue) {
			*either = intstr.FromString(c.String(8))
			if c.Bool() {
				*either = intstr.FromInt32(c.Int31())
			}
		},
		func(fields *metav1.FieldsV1, c randfill.Continue) { fields.Raw = object(c) },
		func(extension *runtime.RawExtension, c randfill.Continue) { extension.Raw = object(c) },
		func(value *apiextensions.JSON, c randfill.Continue) { value.Raw = object(c) },
		func(either *apiextensions.JSONSchemaPropsOrBool, c randfill.Continue) {
			either.Allows = c.Bool()
			if c.Intn(4) == 0 {
				either.Allows, either.Schema = true, &apiextensions.JSONSchemaProps{Description: c.String(8)}
			}
		},
		func(either *apiextensions.JSONSchemaPropsOrArray, c randfill.Continue) {
			either.Schema = &apiextensions.JSONSchemaProps{Description: c.String(8)}
		},
		func(either *apiextensions.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			either.Property = []string{c.String(8)}
		},
		// A number of any size and precision, as clients write it.
		func(number *float64, c randfill.Continue) { *number = float64(c.Int31()) / 8 },
	}
}

// types knows the kinds of client-go, of definitions, and of the aggregator.
func types() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(kinds); err != nil {
			log.Fatal(err)
		}
	}
	return kinds
}

// printer prints resources.
type printer struct {
	encoder *protobuf.Serializer
	lines   *json.Encoder
}

func (p printer) print(object runtime.Object) {
	text, err := json.Marshal(object)
	if err != nil {
		log.Fatalf("%T: %v", object, err)
	}
	var body bytes.Buffer
	if err := p.encoder.Encode(object, &body); err != nil {
		log.Fatalf("%T: %v", object, err)
	}
	if err := p.lines.Encode(document{JSON: text, Protobuf: body.Bytes()}); err != nil {
		log.Fatal(err)
	}
}

// read prints what the lines of the standard input contain in protobuf.
func read(printer printer) {
	for lines := json.NewDecoder(os.Stdin); ; {
		var line document
		if err := lines.Decode(&line); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		object, kind, err := printer.encoder.Decode(line.Protobuf, nil, nil)
		if err != nil {
			log.Fatalf("%s: %v", line.JSON, err)
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		printer.print(object)
	}
}

// generate prints so many resources of each kind of a group.
func generate(printer printer, kinds *runtime.Scheme, group schema.GroupVersion, count int, seed int64) {
	var names []string
	for name, goType := range kinds.KnownTypes(group) {
		if _, isResource := goType.FieldByName("ObjectMeta"); isResource {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	codecs, funcs := serializer.NewCodecFactory(kinds), fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fills)
	for _, name := range names {
		filler := fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs).NumElements(0, 3).MaxDepth(12)
		for range count {
			object, err := kinds.New(group.WithKind(name))
			if err != nil {
				log.Fatal(err)
			}
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(group.WithKind(name))
			printer.print(object)
		}
	}
}

func main() {
	groups := flag.String("groups", "", "groups and versions, with commas between: v1,apps/v1")
	count := flag.Int("count", 1, "resources of each kind")
	seed := flag.Int64("seed", 1, "number of the generated resources")
	flag.Parse()

	kinds := types()
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	printer := printer{encoder: protobuf.NewSerializer(kinds, kinds), lines: json.NewEncoder(output)}
	if *groups == "" {
		read(printer)
		return
	}
	for _, name := range strings.Split(*groups, ",") {
		group, err := schema.ParseGroupVersion(name)
		if err != nil {
			log.Fatal(err)
		}
		generate(printer, kinds, group, *count, *seed)
	}
}
