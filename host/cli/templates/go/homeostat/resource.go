package homeostat

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Resource is a resource with a typed spec and status.
type Resource[Spec, Status any] struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
	Status     *Status  `json:"status,omitempty"`
}

// Metadata is the part of the metadata that controllers use.
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	DeletionTimestamp string            `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences,omitempty"`
}

// OwnerReference lets the host delete a resource after its owner.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// Owner returns the reference to r as an owner.
func (r *Resource[Spec, Status]) Owner() OwnerReference {
	return OwnerReference{r.APIVersion, r.Kind, r.Metadata.Name, r.Metadata.UID, true}
}

// Key returns the key of r.
func (r *Resource[Spec, Status]) Key() Key {
	return Key{KindOf(r.APIVersion, r.Kind), r.Metadata.Namespace, r.Metadata.Name}
}

// Error is why the host refused a request. Compare it by errors.Is with one of the errors below.
type Error struct {
	reason  uint32
	Message string
}

// The reasons, in the order of the contract.
var (
	ErrNotFound      = &Error{reason: 0}
	ErrConflict      = &Error{reason: 1}
	ErrOwned         = &Error{reason: 2}
	ErrAlreadyExists = &Error{reason: 3}
	ErrForbidden     = &Error{reason: 4}
	ErrInvalid       = &Error{reason: 5}
	ErrTooLarge      = &Error{reason: 6}
	ErrUnavailable   = &Error{reason: 7}
	ErrExpired       = &Error{reason: 8}
)

var reasons = [...]string{
	"not found", "conflict", "owned", "already exists", "forbidden", "invalid", "too large", "unavailable", "expired",
}

func (e *Error) Error() string { return reasons[e.reason] + ": " + e.Message }

// Is reports whether the target has the same reason.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.reason == e.reason
}

// Get reads one resource.
func Get[R any](key Key) (*R, error) {
	document, err := storeGet(key)
	if err != nil {
		return nil, err
	}
	return decode[R](document)
}

// Selector selects resources of a kind. The zero value selects all that the controller may list.
type Selector struct {
	// Namespace selects one namespace.
	Namespace string
	// Labels are the labels that a resource must have.
	Labels map[string]string
	// Owner is the UID of an owner.
	Owner string
}

// List yields the resources of a kind, ordered by namespace and name. It ends after an error.
func List[R any](kind Kind, selector Selector) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		from := ""
		for {
			documents, next, err := storeList(kind, selector, from)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, document := range documents {
				resource, err := decode[R](document)
				if !yield(resource, err) || err != nil {
					return
				}
			}
			if next == "" {
				return
			}
			from = next
		}
	}
}

// Apply ensures that a resource exists and that the fields of the document have these values, and returns it as stored.
// With force it takes over fields that other managers own.
func Apply[R any](document R, force bool) (*R, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	stored, err := storeApply(string(text), force)
	if err != nil {
		return nil, err
	}
	return decode[R](stored)
}

// UpdateStatus replaces the status of a resource.
func UpdateStatus(key Key, status any) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return storeUpdateStatus(key, string(text))
}

// Delete deletes a resource, and later what it owns. A resource that is gone already is no error.
func Delete(key Key) error {
	if err := storeDelete(key); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// Severity is how bad an event is.
type Severity uint32

// The severities, in the order of the contract.
const (
	Normal Severity = iota
	Warning
)

// Emit emits an event about the key of this reconcile. The reason is one word in CamelCase.
func Emit(severity Severity, reason, message string) {
	eventsEmit(severity, reason, message)
}

// Info writes a line to the controller's log, with pairs of a name and a value.
func Info(message string, pairs ...any) {
	var fields [][2]string
	for at := 0; at+1 < len(pairs); at += 2 {
		fields = append(fields, [2]string{fmt.Sprint(pairs[at]), fmt.Sprint(pairs[at+1])})
	}
	logInfo(message, fields)
}

func decode[R any](document string) (*R, error) {
	resource := new(R)
	if err := json.Unmarshal([]byte(document), resource); err != nil {
		return nil, err
	}
	return resource, nil
}
