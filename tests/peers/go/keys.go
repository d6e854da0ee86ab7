package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parts returns the namespace and the name of key number number.
func parts(number int) (string, string) {
	return fmt.Sprintf("ns-%d", number%10), fmt.Sprintf("object-%d", number)
}

// name returns key number number: ns-7/object-127.
func name(number int) string {
	namespace, object := parts(number)
	return namespace + "/" + object
}

// names returns the first count keys.
func names(count int) []string {
	keys := make([]string, count)
	for number := range keys {
		keys[number] = name(number)
	}
	return keys
}

// number returns the number at the end of a key or of a name.
func number(name string) int {
	found, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		panic(fmt.Sprintf("%s is no key of ours", name))
	}
	return found
}

// shuffled returns the number below count at this place of a pseudo-random order, which is the same
// everywhere.
func shuffled(place, count int) int {
	return place * 2_654_435_761 % count
}
