// A thin layer over the host's interfaces in `wit`: resources as JSON text, and errors as values.
//
// A controller defines `hs_describe` and `hs_reconcile`. Each call runs in a fresh instance, which ends with it, so nothing
// has to be freed.

#ifndef HOMEOSTAT_H
#define HOMEOSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A kind that the controller works with, and its names. The core group is "".
typedef struct {
  const char *group, *version, *kind;
  // In lower case, as in "deployments".
  const char *plural;
  bool namespaced;
  // A structural schema (OpenAPI v3) in JSON, which the host enforces, or NULL.
  const char *schema;
} hs_kind;

// The name of one resource. The namespace is "" for kinds outside of namespaces.
typedef struct {
  const char *group, *version, *kind, *namespace, *name;
} hs_key;

// A further kind, whose resources the controller writes and that name their owner.
typedef struct {
  // Unique in the controller.
  const char *name;
  hs_kind of;
} hs_watch;

// The description of a controller. Its own writes of a status do not run it again.
typedef struct {
  hs_kind manages;
  const hs_watch *watches;
  size_t watches_count;
  // The period after which every key runs again. 0 is the default of the host.
  uint64_t resync_every_ms;
} hs_controller;

// Why the host refused a request, in the order of the contract.
typedef enum {
  HS_NOT_FOUND,
  HS_CONFLICT,
  HS_OWNED,
  HS_ALREADY_EXISTS,
  HS_FORBIDDEN,
  HS_INVALID,
  HS_TOO_LARGE,
  HS_UNAVAILABLE,
  HS_EXPIRED,
} hs_reason;

typedef struct {
  hs_reason reason;
  const char *message;
} hs_error;

// The end of a reconcile. Make it by one of the functions below.
typedef struct {
  bool failed;
  int which;
  uint64_t after_ms;
  const char *message;
} hs_result;

// Returns the description of the controller: the same each time.
hs_controller hs_describe(void);

// Brings the world one step closer to the spec of the resource.
hs_result hs_reconcile(hs_key key);

// The world matches the resource.
hs_result hs_settled(void);
// Reconcile again after this delay, at least.
hs_result hs_again(uint64_t after_ms);
// A failure, retried with backoff.
hs_result hs_failed(hs_error error);
// A failure, retried after this delay. The backoff still holds when it is longer.
hs_result hs_retry_after(const char *message, uint64_t after_ms);
// A failure that is not retried: the key waits until its resource changes.
hs_result hs_never(const char *message);

// Returns the document of a resource, or NULL with the error.
char *hs_get(hs_key key, hs_error *error);
// Ensures that a resource exists and that the fields of the document have these values. Returns it as stored, or NULL with
// the error. With `force` it takes over fields that other managers own.
char *hs_apply(const char *document, bool force, hs_error *error);
// Replaces the status of a resource. `status` is the JSON of the status alone. Returns false with the error.
bool hs_update_status(hs_key key, const char *status, hs_error *error);
// Deletes a resource, and later what it owns. A resource that is gone already is no error. Returns false with the error.
bool hs_delete(hs_key key, hs_error *error);

// A page of a list, ordered by namespace and name.
typedef struct {
  char **documents;
  size_t count;
  // Pass it to the next call to read on. NULL at the end.
  const char *next;
} hs_page;
// Reads a page of the resources of a kind. `namespace` and `owner` (the uid of an owner) may be NULL, and so is `from` for
// the first page. Returns false with the error.
bool hs_list(hs_kind kind, const char *namespace, const char *owner, const char *from, hs_page *page, hs_error *error);

// A statement about a resource: an item of `status.conditions`. `status` is "True", "False" or "Unknown".
typedef struct {
  const char *type, *status, *reason, *message;
  // The generation of the resource that it is about. 0 leaves it out.
  uint64_t observed_generation;
} hs_condition;

// Returns the JSON list of the conditions of a document with one of them set. `lastTransitionTime` stays as long as the
// status of the condition does, so an equal condition changes nothing.
char *hs_conditions(const char *document, hs_condition set);

// Emits an event about the key of this reconcile. `reason` is one word in CamelCase.
void hs_emit(bool warning, const char *reason, const char *message);
// Writes a line to the controller's log.
void hs_info(const char *message);

// Returns the string at a JSON pointer (RFC 6901, without `~` escapes) of a document, unescaped. NULL if there is none.
char *hs_json_text(const char *document, const char *pointer);
// Returns the JSON text of the value at a pointer, as written: `3`, `true`, `{"a": 1}`. NULL if there is none.
char *hs_json_value(const char *document, const char *pointer);
// Returns the JSON string of a text, with its quotes.
char *hs_json_quote(const char *text);
// Returns a formatted text, as `printf` would print it.
char *hs_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
