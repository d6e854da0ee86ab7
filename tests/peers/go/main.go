// Contenders that are written in Go: client-go's work queues, controller-runtime's queue, loop and manager, and etcd.
//
// Each run is one process that does one work and prints its figures as one line of JSON, as the contenders in Rust do:
//
//	peers contender SYSTEM SUITE WORK --keys N --workers N --millis N
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// size is the size of a work. Each work defines the meaning of its numbers.
type size struct {
	keys    int
	workers int
	long    time.Duration
}

// values are the figures of one run, by name.
type values map[string]float64

func main() {
	if len(os.Args) == 2 && os.Args[1] == "ticker" {
		printTicks()
		return
	}
	ctrllog.SetLogger(logr.Discard())
	found, err := run(os.Args[1:])
	// A controller that the driver measures has printed its own lines.
	if err == nil && found != nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) (values, error) {
	if len(arguments) < 4 || arguments[0] != "contender" {
		return nil, fmt.Errorf("usage: peers contender SYSTEM SUITE WORK [--keys N] [--workers N] [--millis N]")
	}
	system, suite, work := arguments[1], arguments[2], arguments[3]
	flags := flag.NewFlagSet("contender", flag.ContinueOnError)
	keys := flags.Int("keys", 1000, "keys")
	workers := flags.Int("workers", 1, "workers")
	millis := flags.Int("millis", 1000, "how long to measure")
	flags.String("guests", "", "not looked at")
	server := flags.String("server", "", "a file of kubectl")
	if err := flags.Parse(arguments[4:]); err != nil {
		return nil, err
	}
	size := size{*keys, *workers, time.Duration(*millis) * time.Millisecond}
	switch suite {
	case "queue":
		return runQueue(system, work, size)
	case "loop":
		if system == "controller-runtime" {
			return runLoop(work, size)
		}
	case "density":
		if system == "controller-runtime" {
			return runDensity(work, size)
		}
	case "stores":
		if system == "controller-runtime" {
			return nil, control(size, *server)
		}
	case "store":
		if system == "etcd" {
			return runStore(work, size)
		}
	}
	return nil, fmt.Errorf("%s has nothing to do with %s", system, suite)
}
