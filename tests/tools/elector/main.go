// Command elector contends for a Lease with client-go's leader election, and prints each change as a JSON object in
// a line. A line on its standard input makes it release the Lease and end.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// outputLine is one line of output.
type outputLine struct {
	// Event is started, stopped or leader.
	Event string `json:"event"`
	// Leader is the holder of the Lease, as this elector sees it.
	Leader string `json:"leader,omitempty"`
	// At is the time of day in nanoseconds.
	At int64 `json:"at"`
}

func main() {
	server := flag.String("server", "", "address of the API")
	token := flag.String("token", "", "token for the API")
	authority := flag.String("certificate-authority", "", "file with the certificate of the API")
	namespace := flag.String("namespace", "default", "namespace of the Lease")
	name := flag.String("name", "", "name of the Lease")
	identity := flag.String("identity", "", "identity of this elector")
	length := flag.Duration("lease-duration", 15*time.Second, "LeaseDuration")
	deadline := flag.Duration("renew-deadline", 10*time.Second, "RenewDeadline")
	period := flag.Duration("retry-period", 2*time.Second, "RetryPeriod")
	flag.Parse()
	config := &rest.Config{Host: *server, BearerToken: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *authority}, Timeout: *deadline / 2}
	client, err := coordination.NewForConfig(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	// The work under the Lease ends before the Lease is released.
	stopped := sync.OnceFunc(func() { write(outputLine{Event: "stopped"}) })
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		stopped()
		cancel()
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *name},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		LeaseDuration:   *length,
		RenewDeadline:   *deadline,
		RetryPeriod:     *period,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { write(outputLine{Event: "started"}) },
			OnStoppedLeading: stopped,
			OnNewLeader:      func(leader string) { write(outputLine{Event: "leader", Leader: leader}) },
		},
	})
}

// lines keeps the lines of several goroutines apart.
var lines sync.Mutex

func write(line outputLine) {
	lines.Lock()
	defer lines.Unlock()
	line.At = time.Now().UnixNano()
	text, err := json.Marshal(line)
	if err == nil {
		fmt.Println(string(text))
	}
}
