// A controller in Go, as `GOOS=wasip1 go build -buildmode=c-shared` builds it: it implements the canonical ABI by hand.
package main

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"
)

//go:wasmimport homeostat:reconciler/store@0.1.0 get
func storeGet(group, version, kind, namespace, name string, view int32, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/store@0.1.0 update-status
func storeUpdateStatus(arguments, answer unsafe.Pointer)

// Memory of the host's arguments, kept until the instance ends with its one call.
var handed [][]uint64

// Whether the Go runtime has started. Its first WASI call makes the adapter allocate memory, which it keeps.
// Until then only static memory is available.
var begun bool
var early [4 << 16]byte
var earlyUsed uintptr

func init() { begun = true }

//go:wasmexport cabi_realloc
//go:nosplit
func realloc(old unsafe.Pointer, was, align, bytes uint32) unsafe.Pointer {
	if begun {
		return allocate(old, was, bytes)
	}
	base := uintptr(unsafe.Pointer(&early))
	at := (base + earlyUsed + uintptr(align) - 1) &^ (uintptr(align) - 1)
	earlyUsed = at - base + uintptr(bytes)
	if earlyUsed > uintptr(len(early)) {
		return unsafe.Pointer(^uintptr(0)) // Behind all memory: a trap.
	}
	return unsafe.Pointer(at)
}

func allocate(old unsafe.Pointer, was, bytes uint32) unsafe.Pointer {
	room := make([]uint64, bytes/8+1)
	handed = append(handed, room)
	at := unsafe.Pointer(&room[0])
	if old != nil {
		copy(unsafe.Slice((*byte)(at), bytes), unsafe.Slice((*byte)(old), was))
	}
	return at
}

// Memory of the guest's arguments, likewise.
var pinned [][]byte

// The result of an export.
var answer [32]uint64

// Words of four bytes, the memory layout of records of strings and small numbers.
type words []uint32

func (w *words) text(text string) {
	kept := append(make([]byte, 0, len(text)+1), text...)
	pinned = append(pinned, kept)
	*w = append(*w, uint32(uintptr(unsafe.Pointer(unsafe.SliceData(kept)))), uint32(len(text)))
}

//go:wasmexport homeostat:reconciler/reconciler@0.1.0#describe
func describe() unsafe.Pointer {
	if time.Now().Unix() != 946684800 {
		panic("the clock does not stand still")
	}
	var w words
	for _, text := range []string{"lang.example.dev", "v1", "Note", "notes"} {
		w.text(text)
	}
	w = append(w, 1, 0, 0, 0, 1) // namespaced and not keys only; no schema; but-status
	for at, word := range w {
		binary.LittleEndian.PutUint32(unsafe.Slice((*byte)(unsafe.Pointer(&answer)), 256)[4*at:], word)
	}
	return unsafe.Pointer(&answer)
}

//go:wasmexport homeostat:reconciler/reconciler@0.1.0#reconcile
func reconcile(
	g unsafe.Pointer, gn uint32, v unsafe.Pointer, vn uint32, k unsafe.Pointer, kn uint32,
	s unsafe.Pointer, sn uint32, n unsafe.Pointer, nn uint32,
) unsafe.Pointer {
	of := func(at unsafe.Pointer, bytes uint32) string { return string(unsafe.Slice((*byte)(at), bytes)) }
	group, version, kind, namespace, name := of(g, gn), of(v, vn), of(k, kn), of(s, sn), of(n, nn)
	var got [16]uint64
	storeGet(group, version, kind, namespace, name, 0, unsafe.Pointer(&got))
	fields := unsafe.Slice((*uint32)(unsafe.Pointer(&got)), 32)
	clear(answer[:])
	if fields[0]&0xff != 0 {
		return unsafe.Pointer(&answer)
	}
	// The document follows the case, the key, the uid, the revision and the generation.
	document := of(unsafe.Pointer(uintptr(fields[18])), fields[19])
	var note struct{ Spec struct{ Text string } }
	if err := json.Unmarshal([]byte(document), &note); err != nil {
		panic(err)
	}
	fmt.Println("read", note.Spec.Text)
	if note.Spec.Text == "crash" {
		panic("crashed on purpose")
	}
	_, err := os.Open("/etc/hosts")
	status, _ := json.Marshal(map[string]any{"by": "Go", "random": rand.Text(), "time": time.Now().Unix(), "file": fmt.Sprint(err)})
	var w words
	for _, text := range []string{group, version, kind, namespace, name, string(status)} {
		w.text(text)
	}
	w = append(w, 0, 0, 0, 0, 0, 0) // no precondition
	storeUpdateStatus(unsafe.Pointer(unsafe.SliceData(w)), unsafe.Pointer(&got))
	runtime.KeepAlive(w)
	if fields[0]&0xff != 0 {
		panic("the status was not written")
	}
	return unsafe.Pointer(&answer)
}

func main() {}
