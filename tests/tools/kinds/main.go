// Command kinds writes the data of Kubernetes' built-in kinds, which host/builtin contains: names, schemas, protobuf
// field numbers and constant defaults, and of the roles for users. It takes them from the pinned module k8s.io/kubernetes: its published OpenAPI
// and discovery documents, its Go types, and its defaulting functions.
//
// Usage: go run ./kinds FOLDER, in tests/tools. FOLDER gets kinds.json, definitions.txt and roles.json.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
)

// The groups whose kinds are built in, in the version that is stored.
var groupVersions = []schema.GroupVersion{
	{Group: "", Version: "v1"},
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiregistration.k8s.io", Version: "v1"},
	{Group: "apps", Version: "v1"},
	{Group: "autoscaling", Version: "v2"},
	{Group: "batch", Version: "v1"},
	{Group: "certificates.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "discovery.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"},
	{Group: "networking.k8s.io", Version: "v1"},
	{Group: "node.k8s.io", Version: "v1"},
	{Group: "policy", Version: "v1"},
	{Group: "rbac.authorization.k8s.io", Version: "v1"},
	{Group: "resource.k8s.io", Version: "v1"},
	{Group: "scheduling.k8s.io", Version: "v1"},
	{Group: "storage.k8s.io", Version: "v1"},
}

// Kinds that are not stored: bodies of requests and answers.
var messages = []schema.GroupVersionKind{
	{Group: "", Version: "v1", Kind: "Binding"},
	{Group: "", Version: "v1", Kind: "DeleteOptions"},
	{Group: "", Version: "v1", Kind: "Status"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview"},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "LocalSubjectAccessReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectRulesReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
	{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"},
	{Group: "autoscaling", Version: "v1", Kind: "Scale"},
	{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"},
	{Group: "policy", Version: "v1", Kind: "Eviction"},
}

// Kinds of the groups that are not stored.
var leftOut = []string{"Binding", "ComponentStatus"}

// kind is one built-in kind, as discovery lists it.
type kind struct {
	Group        string         `json:"group"`
	Version      string         `json:"version"`
	Kind         string         `json:"kind"`
	Plural       string         `json:"plural"`
	Singular     string         `json:"singular"`
	ShortNames   []string       `json:"shortNames,omitempty"`
	Categories   []string       `json:"categories,omitempty"`
	Namespaced   bool           `json:"namespaced"`
	Subresources []string       `json:"subresources,omitempty"`
	Definition   string         `json:"definition"`
	Defaults     map[string]any `json:"defaults,omitempty"`
}

type object = map[string]any

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: kinds FOLDER")
	}
	module := moduleFolder()
	published := readDefinitions(filepath.Join(module, "api/openapi-spec/v3"))
	table := &definitions{published: published, enums: readEnums(), made: map[string]object{}}
	var kinds []kind
	for _, version := range groupVersions {
		for _, found := range readKinds(filepath.Join(module, "api/discovery"), version) {
			found.Definition = table.add(goType(version.WithKind(found.Kind)))
			kinds = append(kinds, found)
		}
	}
	names := map[string]string{}
	for _, message := range messages {
		names[message.GroupVersion().String()+" "+message.Kind] = table.add(goType(message))
	}
	probe := newProbe(table)
	for i := range kinds {
		gvk := schema.GroupVersionKind{Group: kinds[i].Group, Version: kinds[i].Version, Kind: kinds[i].Kind}
		probe.add(gvk)
	}
	probe.attach()
	write(filepath.Join(os.Args[1], "kinds.json"), object{"kubernetes": filepath.Base(module), "kinds": kinds, "messages": names})
	write(filepath.Join(os.Args[1], "roles.json"), readRoles())
	lines := &bytes.Buffer{}
	for _, name := range sortedKeys(table.made) {
		fmt.Fprintf(lines, "%s\t%s\n", name, text(table.made[name]))
	}
	if err := os.WriteFile(filepath.Join(os.Args[1], "definitions.txt"), lines.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
	log.Printf("%d kinds, %d definitions, %d bytes", len(kinds), len(table.made), lines.Len())
}

func moduleFolder() string {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		log.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(output))
}

func read(path string, into any) {
	content, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		log.Fatalf("%s: %v", path, err)
	}
}

func text(value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(buffer.String())
}

func write(path string, value any) {
	if err := os.WriteFile(path, []byte(text(value)+"\n"), 0o644); err != nil {
		log.Fatal(err)
	}
}

func sortedKeys[V any](from map[string]V) []string {
	var keys []string
	for key := range from {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// readDefinitions returns the schemas of all OpenAPI documents, by name.
func readDefinitions(folder string) map[string]object {
	paths, err := filepath.Glob(filepath.Join(folder, "*_openapi.json"))
	if err != nil {
		log.Fatal(err)
	}
	all := map[string]object{}
	for _, path := range paths {
		var document struct {
			Components struct {
				Schemas map[string]object `json:"schemas"`
			} `json:"components"`
		}
		read(path, &document)
		for name, definition := range document.Components.Schemas {
			all[name] = definition
		}
	}
	return all
}

// enum is the values of a field that has few, and the description of the field, which explains them.
type enum struct {
	values      []any
	description string
}

// readEnums returns the fields that have few values.
func readEnums() map[string]enum {
	refer := func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }
	enums := map[string]enum{}
	for name, definition := range generated.GetOpenAPIDefinitions(refer) {
		for property, schema := range definition.Schema.Properties {
			if len(schema.Enum) > 0 {
				enums[name+"."+property] = enum{schema.Enum, schema.Description}
			}
			if schema.Items != nil && schema.Items.Schema != nil && len(schema.Items.Schema.Enum) > 0 {
				enums[name+"."+property+"[]"] = enum{schema.Items.Schema.Enum, schema.Description}
			}
			if values := schema.AdditionalProperties; values != nil && values.Schema != nil && len(values.Schema.Enum) > 0 {
				enums[name+"."+property+"{}"] = enum{values.Schema.Enum, schema.Description}
			}
		}
	}
	return enums
}

// readKinds returns the kinds of a group that can be created and listed.
func readKinds(folder string, version schema.GroupVersion) []kind {
	name := "api__" + version.Version
	if version.Group != "" {
		name = "apis__" + version.Group + "__" + version.Version
	}
	var list struct {
		Resources []struct {
			Name, SingularName, Kind      string
			Namespaced                    bool
			Verbs, ShortNames, Categories []string
		}
	}
	read(filepath.Join(folder, name+".json"), &list)
	var kinds []kind
	for _, resource := range list.Resources {
		if strings.Contains(resource.Name, "/") || slices.Contains(leftOut, resource.Kind) || !slices.Contains(resource.Verbs, "list") {
			continue
		}
		found := kind{
			Group: version.Group, Version: version.Version, Kind: resource.Kind, Plural: resource.Name,
			Singular: resource.SingularName, ShortNames: resource.ShortNames, Categories: resource.Categories,
			Namespaced: resource.Namespaced,
		}
		for _, part := range list.Resources {
			if name, is := strings.CutPrefix(part.Name, resource.Name+"/"); is {
				found.Subresources = append(found.Subresources, name)
			}
		}
		kinds = append(kinds, found)
	}
	return kinds
}

// definitions are the schemas that the kinds use, with what the Go types add.
type definitions struct {
	published map[string]object
	// Values by definition and property. Kubernetes' generated definitions have them; the published ones do not.
	enums map[string]enum
	made  map[string]object
}

// modelName returns the name of a Go type in the OpenAPI documents.
func modelName(of reflect.Type) string {
	path := of.PkgPath()
	host, rest, _ := strings.Cut(path, "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + of.Name()
}

// add adds the definition of a struct, and those of its fields, and returns its name.
func (d *definitions) add(of reflect.Type) string {
	name := modelName(of)
	if _, is := d.made[name]; is {
		return name
	}
	published, is := d.published[name]
	if !is {
		published = object{"type": "object", "properties": object{}}
		if of.Kind() != reflect.Struct {
			log.Fatalf("no published definition of %s", name)
		}
	}
	made := object{}
	for key, value := range published {
		if key != "x-kubernetes-group-version-kind" {
			made[key] = value
		}
	}
	d.made[name] = made
	if isOpaque(of) {
		return name
	}
	properties := object{}
	if has, is := published["properties"].(object); is {
		for key, value := range has {
			properties[key] = simplified(value.(object))
		}
	}
	d.fields(of, made, properties, true)
	// A client that writes a document again leaves an empty object out.
	if len(properties) > 0 {
		made["properties"] = properties
	}
	for key, value := range properties {
		if _, is := value.(object)["x-go"]; !is && key != "apiVersion" && key != "kind" {
			log.Fatalf("%s.%s has no field in Go", name, key)
		}
	}
	return name
}

// fields adds the fields of a Go struct to the properties. Fields of an inlined struct have no number of their own.
func (d *definitions) fields(of reflect.Type, made, properties object, numbered bool) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := protobufNumber(field)
		if name == "-" || field.Name == "TypeMeta" && field.Anonymous {
			continue
		}
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			d.fields(inner, made, properties, false)
			// What an inlined message inlines itself is a part of it.
			if number != 0 && numbered {
				inlined, _ := made["x-go-inline"].([]any)
				made["x-go-inline"] = append(inlined, []any{number, d.add(inner)})
			}
			continue
		}
		property, is := properties[name].(object)
		if !is {
			property = openType(field.Type)
			properties[name] = property
		}
		if enum, is := d.enums[modelName(of)+"."+name]; is {
			property["enum"], property["description"] = enum.values, enum.description
		}
		if enum, is := d.enums[modelName(of)+"."+name+"[]"]; is {
			property["items"].(object)["enum"], property["description"] = enum.values, enum.description
		}
		if enum, is := d.enums[modelName(of)+"."+name+"{}"]; is {
			property["additionalProperties"].(object)["enum"], property["description"] = enum.values, enum.description
		}
		flags := ""
		if strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") {
			flags += "o"
		}
		if field.Type.Kind() == reflect.Pointer {
			flags += "p"
		}
		if !numbered {
			number = 0
		}
		property["x-go"] = []any{number, flags}
		d.addUsed(field.Type)
	}
}

// openType returns the schema of a field that is not published.
func openType(of reflect.Type) object {
	switch of.Kind() {
	case reflect.Pointer:
		return openType(of.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int32:
		return object{"type": "integer", "format": "int32"}
	case reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Struct:
		return object{"$ref": modelName(of)}
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}
		}
		return object{"type": "array", "items": openType(of.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": openType(of.Elem())}
	}
	log.Fatalf("no schema of %s", of)
	return nil
}

func (d *definitions) addUsed(of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		d.addUsed(of.Elem())
	case reflect.Struct:
		d.add(of)
	}
}

func protobufNumber(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		log.Fatalf("%s: %v", field.Name, err)
	}
	return number
}

// isOpaque returns whether a type encodes itself: its fields are not those of its JSON.
func isOpaque(of reflect.Type) bool {
	switch of.Name() {
	case "Time", "MicroTime", "Duration", "Quantity", "IntOrString", "RawExtension", "FieldsV1":
		return true
	case "JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray":
		return true
	}
	return false
}

// simplified returns a published property with a plain reference in place of an `allOf` with one.
func simplified(property object) object {
	simple := object{}
	for key, value := range property {
		switch key {
		case "allOf":
			simple["$ref"] = reference(value.([]any)[0].(object)["$ref"].(string))
		case "$ref":
			simple["$ref"] = reference(value.(string))
		case "items", "additionalProperties":
			simple[key] = simplified(value.(object))
		default:
			simple[key] = value
		}
	}
	return simple
}

func reference(pointer string) string {
	return strings.TrimPrefix(pointer, "#/components/schemas/")
}
