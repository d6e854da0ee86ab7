// The canonical ABI of the component model for the contract in `wit`, by hand: records are C structures of the same layout.

#include "homeostat.h"

#include <stdlib.h>
#include <string.h>

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define EXPORT(name) __attribute__((export_name(name)))
// A string is passed as its address and its length.
#define TEXT(name) const char *name##_at, size_t name##_bytes
#define PASS(text) (text).at, (text).bytes

// Items of one page of a list, at most: the host's own bound.
enum { VIEW_WHOLE = 0, PROPAGATION_BACKGROUND = 0, CHANGES_BUT_STATUS = 1, LOG_INFO = 2, PAGE_ITEMS_MAX = 500 };
enum { OUTCOME_SETTLED, OUTCOME_AGAIN_AFTER };
enum { RETRY_BACKOFF, RETRY_AFTER, RETRY_NEVER };

typedef struct { const char *at; size_t bytes; } text;
typedef struct { uint8_t is_some; text value; } maybe_text;
typedef struct { uint8_t is_some; uint32_t value; } maybe_u32;
typedef struct { uint8_t is_some; uint64_t value; } maybe_u64;
typedef struct { text group, version, name; } kind;
typedef struct { kind kind; text namespace, name; } key;
typedef struct { kind kind; text plural; uint8_t namespaced, keys_only; maybe_text schema; } declaration;
typedef struct { uint8_t which; text value; } mapping;
typedef struct { text name; declaration of; mapping mapping; uint8_t changes, role; } watch;
typedef struct { uint64_t base, max; maybe_u32 retries_max; } backoff;
typedef struct { uint8_t is_some; backoff value; } maybe_backoff;
typedef struct {
  declaration manages;
  uint8_t changes;
  const watch *watches;
  size_t watches_count;
  maybe_u64 poll_every, resync_every;
  maybe_backoff backoff;
  maybe_u32 concurrency;
  uint8_t during_delay;
} controller_spec;
typedef struct { key key; text uid, revision; uint64_t generation; text json; } resource;
typedef struct { uint8_t which; text text; } store_error;
typedef struct { uint8_t is_error; union { resource value; store_error error; }; } resource_result;
typedef struct { const resource *items; size_t count; text revision; maybe_text next; } page;
typedef struct { uint8_t is_error; union { page value; store_error error; }; } page_result;
typedef struct { uint8_t is_error; store_error error; } done_result;
typedef struct { maybe_text uid, revision; } precondition;
typedef struct { maybe_text namespace; const void *labels; size_t labels_count; const void *fields; size_t fields_count; maybe_text owner; } selector;
typedef struct { uint8_t which; uint64_t after_ms; } outcome;
typedef struct { text message; uint8_t retry; uint64_t after_ms; } failure;
typedef struct { uint8_t is_error; union { outcome outcome; failure failure; }; } reconcile_result;

_Static_assert(sizeof(controller_spec) == 144, "the layout of the contract");
_Static_assert(sizeof(resource) == 72 && sizeof(watch) == 72, "the layout of the contract");

IMPORT("homeostat:reconciler/store@0.1.0", "get")
void import_get(TEXT(group), TEXT(version), TEXT(kind), TEXT(namespace), TEXT(name), int view, resource_result *);
IMPORT("homeostat:reconciler/store@0.1.0", "list") void import_list(const void *arguments, page_result *);
IMPORT("homeostat:reconciler/store@0.1.0", "apply") void import_apply(TEXT(document), int force, resource_result *);
IMPORT("homeostat:reconciler/store@0.1.0", "update-status")
void import_update_status(const void *arguments, resource_result *);
IMPORT("homeostat:reconciler/store@0.1.0", "delete") void import_delete(const void *arguments, done_result *);
IMPORT("homeostat:reconciler/events@0.1.0", "emit")
void import_emit(int severity, TEXT(reason), TEXT(message), int some, TEXT(group), TEXT(version), TEXT(kind), TEXT(namespace), TEXT(name));
IMPORT("homeostat:reconciler/log@0.1.0", "write")
void import_write(int level, TEXT(message), const void *fields, size_t fields_count);

EXPORT("cabi_realloc") void *cabi_realloc(void *old, size_t was, size_t align, size_t bytes);
void *cabi_realloc(void *old, size_t was, size_t align, size_t bytes) {
  (void)was;
  (void)align;
  void *at = realloc(old, bytes);
  if (at == NULL && bytes > 0) abort();
  return at;
}

static text from(const char *at) { return at == NULL ? (text){"", 0} : (text){at, strlen(at)}; }

static maybe_text maybe(const char *at) { return (maybe_text){at != NULL, from(at)}; }

// Returns a text of the host with a zero behind it.
static char *copy(text of) {
  char *at = cabi_realloc(NULL, 0, 1, of.bytes + 1);
  if (of.bytes > 0) memcpy(at, of.at, of.bytes);
  at[of.bytes] = '\0';
  return at;
}

static kind kind_from(const char *group, const char *version, const char *name) {
  return (kind){from(group), from(version), from(name)};
}

static key key_from(hs_key of) {
  return (key){kind_from(of.group, of.version, of.kind), from(of.namespace), from(of.name)};
}

static declaration declaration_from(hs_kind of) {
  return (declaration){kind_from(of.group, of.version, of.kind), from(of.plural), of.namespaced, 0, maybe(of.schema)};
}

static void set_error(hs_error *error, const store_error *of) { *error = (hs_error){of->which, copy(of->text)}; }

static char *document(const resource_result *result, hs_error *error) {
  if (!result->is_error) return copy(result->value.json);
  set_error(error, &result->error);
  return NULL;
}

hs_result hs_settled(void) { return (hs_result){.which = OUTCOME_SETTLED}; }

hs_result hs_again(uint64_t after_ms) { return (hs_result){.which = OUTCOME_AGAIN_AFTER, .after_ms = after_ms}; }

hs_result hs_failed(hs_error error) {
  static const char *const reasons[] = {"not found", "conflict", "owned", "already exists", "forbidden",
                                        "invalid", "too large", "unavailable", "expired"};
  return (hs_result){true, RETRY_BACKOFF, 0, hs_format("%s: %s", reasons[error.reason], error.message)};
}

hs_result hs_retry_after(const char *message, uint64_t after_ms) {
  return (hs_result){true, RETRY_AFTER, after_ms, message};
}

hs_result hs_never(const char *message) { return (hs_result){true, RETRY_NEVER, 0, message}; }

char *hs_get(hs_key of, hs_error *error) {
  static resource_result result;
  key key = key_from(of);
  import_get(PASS(key.kind.group), PASS(key.kind.version), PASS(key.kind.name), PASS(key.namespace), PASS(key.name), VIEW_WHOLE, &result);
  return document(&result, error);
}

char *hs_apply(const char *applied, bool force, hs_error *error) {
  static resource_result result;
  import_apply(PASS(from(applied)), force, &result);
  return document(&result, error);
}

bool hs_update_status(hs_key of, const char *status, hs_error *error) {
  static resource_result result;
  struct { key key; text status; precondition precondition; } arguments = {.key = key_from(of), .status = from(status)};
  import_update_status(&arguments, &result);
  if (result.is_error) set_error(error, &result.error);
  return !result.is_error;
}

bool hs_delete(hs_key of, hs_error *error) {
  static done_result result;
  struct { key key; precondition precondition; uint8_t propagation; } arguments = {.key = key_from(of), .propagation = PROPAGATION_BACKGROUND};
  import_delete(&arguments, &result);
  if (!result.is_error || result.error.which == HS_NOT_FOUND) return true;
  set_error(error, &result.error);
  return false;
}

bool hs_list(hs_kind of, const char *namespace, const char *owner, const char *start, hs_page *found, hs_error *error) {
  static page_result result;
  struct { kind kind; selector selector; uint8_t view; maybe_u32 limit; maybe_text from; } arguments = {
      .kind = kind_from(of.group, of.version, of.kind),
      .selector = {.namespace = maybe(namespace), .owner = maybe(owner)},
      .view = VIEW_WHOLE,
      .limit = {1, PAGE_ITEMS_MAX},
      .from = maybe(start),
  };
  import_list(&arguments, &result);
  if (result.is_error) {
    set_error(error, &result.error);
    return false;
  }
  const page *page = &result.value;
  char **documents = cabi_realloc(NULL, 0, sizeof(char *), page->count * sizeof(char *) + 1);
  for (size_t index = 0; index < page->count; index++) documents[index] = copy(page->items[index].json);
  *found = (hs_page){documents, page->count, page->next.is_some ? copy(page->next.value) : NULL};
  return true;
}

void hs_emit(bool warning, const char *reason, const char *message) {
  text none = from("");
  import_emit(warning, PASS(from(reason)), PASS(from(message)), 0, PASS(none), PASS(none), PASS(none), PASS(none), PASS(none));
}

void hs_info(const char *message) { import_write(LOG_INFO, PASS(from(message)), NULL, 0); }

EXPORT("homeostat:reconciler/reconciler@0.1.0#describe") const controller_spec *export_describe(void);
const controller_spec *export_describe(void) {
  static controller_spec spec;
  hs_controller described = hs_describe();
  // The mapping by owner, all changes, and the role of a secondary are the first cases.
  watch *watches = cabi_realloc(NULL, 0, sizeof(char *), described.watches_count * sizeof(watch) + 1);
  for (size_t index = 0; index < described.watches_count; index++) {
    watches[index] = (watch){.name = from(described.watches[index].name), .of = declaration_from(described.watches[index].of)};
  }
  spec.manages = declaration_from(described.manages);
  spec.changes = CHANGES_BUT_STATUS;
  spec.watches = watches;
  spec.watches_count = described.watches_count;
  spec.resync_every = (maybe_u64){described.resync_every_ms > 0, described.resync_every_ms};
  return &spec;
}

EXPORT("homeostat:reconciler/reconciler@0.1.0#reconcile")
const reconcile_result *export_reconcile(TEXT(group), TEXT(version), TEXT(kind), TEXT(namespace), TEXT(name));
const reconcile_result *export_reconcile(TEXT(group), TEXT(version), TEXT(kind), TEXT(namespace), TEXT(name)) {
  static reconcile_result answer;
#define COPY(name) copy((text){name##_at, name##_bytes})
  hs_result result = hs_reconcile((hs_key){COPY(group), COPY(version), COPY(kind), COPY(namespace), COPY(name)});
  answer.is_error = result.failed;
  if (result.failed) {
    answer.failure = (failure){from(result.message), result.which, result.after_ms};
  } else {
    answer.outcome = (outcome){result.which, result.after_ms};
  }
  return &answer;
}
