package main

import (
	"log"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// The roles for the users of a namespace. Each has the rules of those before it.
var userRoles = []string{"view", "edit", "admin"}

// readRoles returns the rules of these roles that a cluster has from its start.
func readRoles() map[string][]rbacv1.PolicyRule {
	own := map[string][]rbacv1.PolicyRule{}
	for _, role := range bootstrappolicy.ClusterRoles() {
		if name, is := strings.CutPrefix(role.Name, "system:aggregate-to-"); is {
			own[name] = role.Rules
		}
	}
	roles := map[string][]rbacv1.PolicyRule{}
	var rules []rbacv1.PolicyRule
	for _, name := range userRoles {
		if len(own[name]) == 0 {
			log.Fatalf("there is no role system:aggregate-to-%s", name)
		}
		rules = append(rules[:len(rules):len(rules)], own[name]...)
		roles[name] = rules
	}
	return roles
}
