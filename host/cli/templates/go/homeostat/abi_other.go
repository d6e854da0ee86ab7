//go:build !wasip1

package homeostat

import "errors"

// Outside of a component there is no host. `homeostat test` runs the component with one.
var errNoHost = errors.New("there is no host outside of a component: use `homeostat test`")

func storeGet(Key) (string, error) { return "", errNoHost }

func storeList(Kind, Selector, string) ([]string, string, error) { return nil, "", errNoHost }

func storeApply(string, bool) (string, error) { return "", errNoHost }

func storeUpdateStatus(Key, string) error { return errNoHost }

func storeDelete(Key) error { return errNoHost }

func eventsEmit(Severity, string, string) {}

func logInfo(string, [][2]string) {}
