// Uses every function of the layer for Go.
package main

import (
	"errors"
	"fmt"
	"time"

	"example.com/layers/homeostat"
)

const apiVersion = "layers.example.dev/v1"

type spec struct {
	Text string `json:"text"`
}

type status struct {
	Text  string `json:"text"`
	Parts int    `json:"parts"`
	// As the layer has them.
	Conditions []homeostat.Condition `json:"conditions"`
}

type whole = homeostat.Resource[spec, status]
type part = homeostat.Resource[spec, struct{}]

func init() {
	parts := homeostat.Declaration{APIVersion: apiVersion, Kind: "Part", Plural: "parts"}
	homeostat.Register(homeostat.Controller{
		Manages:     homeostat.Declaration{APIVersion: apiVersion, Kind: "Whole", Plural: "wholes"},
		Watches:     []homeostat.Watch{{Name: "parts", Of: parts}},
		ResyncEvery: time.Hour,
		Reconcile:   reconcile,
	})
}

func newPart(of *whole, name string) part {
	return part{
		APIVersion: apiVersion,
		Kind:       "Part",
		Metadata: homeostat.Metadata{
			Name:            name,
			Namespace:       of.Metadata.Namespace,
			Labels:          map[string]string{"of": of.Metadata.Name},
			OwnerReferences: []homeostat.OwnerReference{of.Owner()},
		},
		Spec: of.Spec,
	}
}

func reconcile(key homeostat.Key) (homeostat.Outcome, error) {
	whole, err := homeostat.Get[whole](key)
	if err != nil {
		return homeostat.Settled, err
	}
	if whole.Spec.Text == "later" {
		return homeostat.Settled, homeostat.After(5*time.Second, errors.New("not yet"))
	}
	made, old := newPart(whole, key.Name+"-part"), newPart(whole, key.Name+"-old")
	if _, err := homeostat.Get[part](made.Key()); errors.Is(err, homeostat.ErrNotFound) {
		if err := replace(old, made); err != nil {
			return homeostat.Settled, err
		}
	}
	selector := homeostat.Selector{
		Namespace: key.Namespace, Labels: map[string]string{"of": key.Name}, Owner: whole.Metadata.UID,
	}
	parts := 0
	for _, err := range homeostat.List[part](homeostat.KindOf(apiVersion, "Part"), selector) {
		if err != nil {
			return homeostat.Settled, err
		}
		parts++
	}
	if err := homeostat.UpdateStatus(key, status{whole.Spec.Text, parts, conditions(whole, parts)}); err != nil {
		return homeostat.Settled, err
	}
	homeostat.Info("counted", "parts", parts)
	return homeostat.Again(time.Minute), nil
}

func conditions(whole *whole, parts int) []homeostat.Condition {
	var conditions []homeostat.Condition
	if whole.Status != nil {
		conditions = whole.Status.Conditions
	}
	short := "False"
	if whole.Spec.Text == "x" {
		short = "True"
	}
	conditions = homeostat.SetCondition(conditions, homeostat.Condition{Type: "Seen", Status: "True", Reason: "Read"})
	conditions = homeostat.SetCondition(conditions, homeostat.Condition{
		Type: "Ready", Status: "True", Reason: "Counted", Message: fmt.Sprintf("%d part", parts),
		ObservedGeneration: whole.Metadata.Generation,
	})
	return homeostat.SetCondition(conditions, homeostat.Condition{Type: "Short", Status: short, Reason: "Read"})
}

func replace(old, made part) error {
	if _, err := homeostat.Apply(old, false); err != nil {
		return err
	}
	for range 2 {
		if err := homeostat.Delete(old.Key()); err != nil {
			return err
		}
	}
	stored, err := homeostat.Apply(made, false)
	if err != nil {
		return err
	}
	homeostat.Emit(homeostat.Normal, "Made", fmt.Sprintf("made %s", stored.Metadata.Name))
	return nil
}

func main() {}
