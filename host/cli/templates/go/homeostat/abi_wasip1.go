package homeostat

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"unsafe"
)

// This file implements the canonical ABI of the component model for the contract in wit: the host and the guest pass
// records as bytes in the memory of the guest, with addresses of four bytes.

//go:wasmimport homeostat:reconciler/store@0.1.0 get
func importGet(group, version, kind, namespace, name string, view uint32, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/store@0.1.0 list
func importList(arguments, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/store@0.1.0 apply
func importApply(document string, force uint32, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/store@0.1.0 update-status
func importUpdateStatus(arguments, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/store@0.1.0 delete
func importDelete(arguments, answer unsafe.Pointer)

//go:wasmimport homeostat:reconciler/events@0.1.0 emit
func importEmit(severity uint32, reason, message string, some uint32, group, version, kind, namespace, name string)

//go:wasmimport homeostat:reconciler/log@0.1.0 write
func importWrite(level uint32, message string, fields unsafe.Pointer, count uint32)

const (
	viewWhole             = 0
	propagationBackground = 0
	changesButStatus      = 1
	logLevelInfo          = 2
	// Items of one page of a list, at most: the host's own bound.
	pageItemsMax = 500
	// The bytes of a resource in a list, and the place of its document.
	resourceBytes  = 72
	resourceJSONAt = 64
)

// kept has the records that the host gets. The instance ends with its one call, and everything with it.
var kept [][]uint64

// arena is the memory that the host writes to: its answers, and the state of the adapter of WASI. While the host allocates,
// the guest must call nothing, and the allocator of Go may read the clock. So this memory is static.
var arena [8 << 20]byte
var arenaUsed uintptr

//go:wasmexport cabi_realloc
//go:nosplit
func reallocate(old unsafe.Pointer, was, align, bytes uint32) unsafe.Pointer {
	base := uintptr(unsafe.Pointer(&arena))
	at := (base+arenaUsed+uintptr(align)-1)&^(uintptr(align)-1) - base
	if at+uintptr(bytes) > uintptr(len(arena)) {
		return pointer(math.MaxUint32) // Behind all memory: a trap.
	}
	arenaUsed = at + uintptr(bytes)
	if old != nil {
		copy(arena[at:at+uintptr(bytes)], unsafe.Slice((*byte)(old), min(was, bytes)))
	}
	return unsafe.Add(unsafe.Pointer(&arena), at)
}

// release frees what the host wrote since the arena had this fill. Answers are copied before.
func release(used uintptr) { arenaUsed = used }

// record is memory that is aligned for every record.
type record []uint64

func newRecord(bytes int) record {
	room := make(record, bytes/8+1)
	kept = append(kept, room)
	return room
}

func (r record) address() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(r)) }

func (r record) bytes() []byte { return unsafe.Slice((*byte)(r.address()), 8*len(r)) }

func (r record) setByte(at int, value byte) { r.bytes()[at] = value }

func (r record) setBool(at int, value bool) {
	if value {
		r.setByte(at, 1)
	}
}

func (r record) setUint32(at int, value uint32) { binary.LittleEndian.PutUint32(r.bytes()[at:], value) }

func (r record) setUint64(at int, value uint64) { binary.LittleEndian.PutUint64(r.bytes()[at:], value) }

// setText writes a string: its address and its length.
func (r record) setText(at int, text string) {
	copied := newRecord(len(text))
	copy(copied.bytes(), text)
	r.setUint32(at, uint32(uintptr(copied.address())))
	r.setUint32(at+4, uint32(len(text)))
}

// setOptionalText writes an option<string>. Empty text is none.
func (r record) setOptionalText(at int, text string) {
	if text != "" {
		r.setByte(at, 1)
		r.setText(at+4, text)
	}
}

// setList writes the address and the length of a list.
func (r record) setList(at int, items record, count int) {
	r.setUint32(at, uint32(uintptr(items.address())))
	r.setUint32(at+4, uint32(count))
}

func (r record) setKind(at int, kind Kind) {
	r.setText(at, kind.Group)
	r.setText(at+8, kind.Version)
	r.setText(at+16, kind.Name)
}

func (r record) setKey(at int, key Key) {
	r.setKind(at, key.Kind)
	r.setText(at+24, key.Namespace)
	r.setText(at+32, key.Name)
}

// setDeclaration writes a kind-declaration of 48 bytes.
func (r record) setDeclaration(at int, declared Declaration) {
	r.setKind(at, KindOf(declared.APIVersion, declared.Kind))
	r.setText(at+24, declared.Plural)
	r.setBool(at+32, !declared.ClusterScoped)
	r.setOptionalText(at+36, declared.Schema)
}

func (r record) uint32(at int) uint32 { return binary.LittleEndian.Uint32(r.bytes()[at:]) }

// text reads a string that the host wrote.
func (r record) text(at int) string { return textAt(pointer(r.uint32(at)), r.uint32(at+4)) }

// err reads the error of a result whose payload is at this place. nil if there is none.
func (r record) err(at int) error {
	if r.bytes()[0] == 0 {
		return nil
	}
	return &Error{reason: min(uint32(r.bytes()[at]), uint32(len(reasons)-1)), Message: r.text(at + 4)}
}

// pointer returns the pointer to an address of the host.
//
//go:nosplit
func pointer(address uint32) unsafe.Pointer {
	wide := uintptr(address)
	return *(*unsafe.Pointer)(unsafe.Pointer(&wide))
}

func textAt(at unsafe.Pointer, bytes uint32) string {
	if bytes == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(at), bytes))
}

// document reads a result<resource, store-error> of 80 bytes.
func (r record) document() (string, error) {
	if err := r.err(8); err != nil {
		return "", err
	}
	return r.text(8 + resourceJSONAt), nil
}

func storeGet(key Key) (string, error) {
	defer release(arenaUsed)
	answer := newRecord(80)
	kind := key.Kind
	importGet(kind.Group, kind.Version, kind.Name, key.Namespace, key.Name, viewWhole, answer.address())
	return answer.document()
}

func storeList(kind Kind, selector Selector, from string) ([]string, string, error) {
	defer release(arenaUsed)
	labels := newRecord(20 * len(selector.Labels))
	names := make([]string, 0, len(selector.Labels))
	for name := range selector.Labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for index, name := range names {
		// The case `equals`, and its two strings.
		labels.setText(20*index+4, name)
		labels.setText(20*index+12, selector.Labels[name])
	}
	arguments, answer := newRecord(88), newRecord(32)
	arguments.setKind(0, kind)
	arguments.setOptionalText(24, selector.Namespace)
	arguments.setList(36, labels, len(names))
	arguments.setOptionalText(52, selector.Owner)
	arguments.setByte(64, viewWhole)
	arguments.setByte(68, 1)
	arguments.setUint32(72, pageItemsMax)
	arguments.setOptionalText(76, from)
	importList(arguments.address(), answer.address())
	if err := answer.err(4); err != nil {
		return nil, "", err
	}
	documents := make([]string, answer.uint32(8))
	for index := range documents {
		item := unsafe.Add(pointer(answer.uint32(4)), index*resourceBytes+resourceJSONAt)
		place := unsafe.Slice((*uint32)(item), 2)
		documents[index] = textAt(pointer(place[0]), place[1])
	}
	if answer.bytes()[20] == 0 {
		return documents, "", nil
	}
	return documents, answer.text(24), nil
}

func storeApply(document string, force bool) (string, error) {
	defer release(arenaUsed)
	answer := newRecord(80)
	var forced uint32
	if force {
		forced = 1
	}
	importApply(document, forced, answer.address())
	return answer.document()
}

func storeUpdateStatus(key Key, status string) error {
	defer release(arenaUsed)
	arguments, answer := newRecord(72), newRecord(80)
	arguments.setKey(0, key)
	arguments.setText(40, status)
	importUpdateStatus(arguments.address(), answer.address())
	return answer.err(8)
}

func storeDelete(key Key) error {
	defer release(arenaUsed)
	arguments, answer := newRecord(68), newRecord(16)
	arguments.setKey(0, key)
	arguments.setByte(64, propagationBackground)
	importDelete(arguments.address(), answer.address())
	return answer.err(4)
}

func eventsEmit(severity Severity, reason, message string) {
	importEmit(uint32(severity), reason, message, 0, "", "", "", "", "")
}

func logInfo(message string, fields [][2]string) {
	list := newRecord(16 * len(fields))
	for index, field := range fields {
		list.setText(16*index, field[0])
		list.setText(16*index+8, field[1])
	}
	importWrite(logLevelInfo, message, list.address(), uint32(len(fields)))
	runtime.KeepAlive(list)
}

//go:wasmexport homeostat:reconciler/reconciler@0.1.0#describe
func exportDescribe() unsafe.Pointer {
	spec := newRecord(144)
	spec.setDeclaration(0, registered.Manages)
	spec.setByte(48, changesButStatus)
	watches := newRecord(72 * len(registered.Watches))
	for index, watch := range registered.Watches {
		// The mapping by owner, all changes, and the role of a secondary are the first cases.
		watches.setText(72*index, watch.Name)
		watches.setDeclaration(72*index+8, watch.Of)
	}
	spec.setList(52, watches, len(registered.Watches))
	if registered.ResyncEvery > 0 {
		spec.setByte(80, 1)
		spec.setUint64(88, milliseconds(registered.ResyncEvery))
	}
	return spec.address()
}

//go:wasmexport homeostat:reconciler/reconciler@0.1.0#reconcile
func exportReconcile(
	group unsafe.Pointer, groupBytes uint32, version unsafe.Pointer, versionBytes uint32,
	kind unsafe.Pointer, kindBytes uint32, namespace unsafe.Pointer, namespaceBytes uint32,
	name unsafe.Pointer, nameBytes uint32,
) unsafe.Pointer {
	key := Key{
		Kind:      Kind{textAt(group, groupBytes), textAt(version, versionBytes), textAt(kind, kindBytes)},
		Namespace: textAt(namespace, namespaceBytes),
		Name:      textAt(name, nameBytes),
	}
	outcome, err := registered.Reconcile(key)
	answer := newRecord(32)
	if err != nil {
		which, afterMS := retryOf(err)
		answer.setByte(0, 1)
		answer.setText(8, err.Error())
		answer.setByte(16, byte(which))
		answer.setUint64(24, afterMS)
		return answer.address()
	}
	answer.setBool(8, outcome.again)
	answer.setUint64(16, outcome.afterMS)
	return answer.address()
}
