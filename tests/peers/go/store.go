package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// valueBytes is the length of a value, that of a whole resource on the other side.
const valueBytes = 1024

// prefix is the prefix of all values: the one kind that is written, watched and listed.
const prefix = "/items/"

func itemKey(number int) string {
	return fmt.Sprintf("%sns-%d/object-%d", prefix, number%10, number)
}

// etcd is a server with default settings in this process, with its data on disk.
type etcd struct {
	server *embed.Etcd
	folder string
	// direct is a client without a network in between.
	direct *clientv3.Client
	// loopback is a client over a socket.
	loopback *clientv3.Client
}

func startEtcd() (*etcd, error) {
	folder, err := os.MkdirTemp("", "peers-etcd-")
	if err != nil {
		return nil, err
	}
	config := embed.NewConfig()
	config.Dir = folder
	config.LogLevel = "fatal"
	anywhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenPeerUrls = []url.URL{anywhere}
	config.ListenClientUrls = []url.URL{anywhere}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("etcd does not start")
	}
	loopback, err := clientv3.New(clientv3.Config{
		Endpoints:          []string{server.Clients[0].Addr().String()},
		MaxCallRecvMsgSize: 1 << 30,
	})
	if err != nil {
		return nil, err
	}
	return &etcd{server, folder, v3client.New(server.Server), loopback}, nil
}

func (e *etcd) stop() {
	e.loopback.Close()
	e.direct.Close()
	e.server.Close()
	os.RemoveAll(e.folder)
}

func runStore(work string, size size) (values, error) {
	etcd, err := startEtcd()
	if err != nil {
		return nil, err
	}
	defer etcd.stop()
	switch work {
	case "write":
		return writes(etcd.direct, size)
	case "write over loopback":
		return writes(etcd.loopback, size)
	case "fan-out":
		return fanOut(etcd.direct, size)
	case "fan-out over loopback":
		return fanOut(etcd.loopback, size)
	case "list":
		return list(etcd.loopback, size)
	}
	return nil, fmt.Errorf("etcd has no work %s", work)
}

// value returns a text of that length, different in each round.
func value(round int) string {
	text := strconv.Itoa(round)
	return text + strings.Repeat("x", valueBytes-len(text))
}

// fill writes every key once.
func fill(client *clientv3.Client, count int) error {
	const writers = 64
	return together(writers, func(writer int) error {
		for number := writer; number < count; number += writers {
			if _, err := client.Put(context.Background(), itemKey(number), value(0)); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs a function this many times concurrently, and returns the first error.
func together(count int, run func(number int) error) error {
	var group sync.WaitGroup
	failed := make(chan error, count)
	for number := range count {
		group.Go(func() {
			if err := run(number); err != nil {
				failed <- err
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}

// writes changes keys from this many writers, each one key after the other.
func writes(client *clientv3.Client, size size) (values, error) {
	if err := fill(client, size.keys); err != nil {
		return nil, err
	}
	took := make([][]time.Duration, size.workers)
	begun := time.Now()
	warm := begun.Add(size.long / 4)
	end := warm.Add(size.long)
	err := together(size.workers, func(writer int) error {
		for round := 1; ; round++ {
			for number := writer; number < size.keys; number += size.workers {
				start := time.Now()
				if start.After(end) {
					return nil
				}
				if _, err := client.Put(context.Background(), itemKey(number), value(round)); err != nil {
					return err
				}
				if start.After(warm) {
					took[writer] = append(took[writer], time.Since(start))
				}
			}
		}
	})
	all := slices.Concat(took...)
	return values{
		"writes/s": float64(len(all)) / size.long.Seconds(),
		"p50 ms":   percentileUs(all, 50) / 1e3,
		"p99 ms":   percentileUs(all, 99) / 1e3,
	}, err
}

// fanOut measures how long a write takes to reach one watcher, and then the last of many.
func fanOut(client *clientv3.Client, size size) (values, error) {
	one, err := reach(client, 1, size.keys)
	if err != nil {
		return nil, err
	}
	all, err := reach(client, size.workers, size.keys)
	if err != nil {
		return nil, err
	}
	return values{"one us": percentileUs(one, 50), "all us": percentileUs(all, 50)}, nil
}

func reach(client *clientv3.Client, watchers int, writes int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Only the last arrival wakes the waiting goroutine: a thousand wake-ups would cost more than the measured
	// work.
	var left atomic.Int64
	last := make(chan struct{}, 1)
	for range watchers {
		events := client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if first := <-events; !first.Created {
			return nil, fmt.Errorf("a watch did not begin: %w", first.Err())
		}
		go func() {
			for response := range events {
				for range response.Events {
					if left.Add(-1) == 0 {
						last <- struct{}{}
					}
				}
			}
		}()
	}
	took := make([]time.Duration, 0, writes)
	for number := range writes {
		start := time.Now()
		left.Store(int64(watchers))
		if _, err := client.Put(ctx, itemKey(number), value(number)); err != nil {
			return nil, err
		}
		<-last
		took = append(took, time.Since(start))
	}
	return took, nil
}

// list reads everything at once, and measures the peak growth of this process.
func list(client *clientv3.Client, size size) (values, error) {
	if err := fill(client, size.keys); err != nil {
		return nil, err
	}
	runtime.GC()
	before, err := residentBytes()
	if err != nil {
		return nil, err
	}
	// The peak is counted from here.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return nil, err
	}
	start := time.Now()
	found, err := client.Get(context.Background(), prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	if len(found.Kvs) != size.keys {
		return nil, fmt.Errorf("%d of %d were listed", len(found.Kvs), size.keys)
	}
	peak, err := peakBytes()
	return values{"ms": took.Seconds() * 1e3, "mib": float64(max(peak-before, 1)) / (1 << 20)}, err
}

// peakBytes returns the peak memory of this process since the last reset.
func peakBytes() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, found := bytes.CutPrefix(line, []byte("VmHWM:")); found {
			kibibytes, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
			return kibibytes * 1024, err
		}
	}
	return 0, fmt.Errorf("there is no VmHWM in status")
}
