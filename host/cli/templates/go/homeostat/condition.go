package homeostat

import (
	"slices"
	"time"
)

// Condition is a statement about a resource: an item of status.conditions.
type Condition struct {
	// Type is one word in CamelCase, unique in its list.
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status             string `json:"status"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
	// Reason is one word in CamelCase.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// SetCondition returns conditions with one of them set. LastTransitionTime stays as long as the status of the condition
// does, so an equal condition changes nothing.
func SetCondition(conditions []Condition, condition Condition) []Condition {
	condition.LastTransitionTime = time.Now().UTC().Format(time.RFC3339)
	at := slices.IndexFunc(conditions, func(one Condition) bool { return one.Type == condition.Type })
	if at < 0 {
		return append(slices.Clone(conditions), condition)
	}
	if conditions[at].Status == condition.Status {
		condition.LastTransitionTime = conditions[at].LastTransitionTime
	}
	set := slices.Clone(conditions)
	set[at] = condition
	return set
}
