// Uses every function of the layer for C.

#include <stdlib.h>
#include <string.h>

#include "homeostat.h"

static const hs_kind parts = {.group = "layers.example.dev", .version = "v1", .kind = "Part", .plural = "parts", .namespaced = true};
static const hs_watch watches[] = {{.name = "parts", .of = parts}};

hs_controller hs_describe(void) {
  return (hs_controller){
      .manages = {.group = "layers.example.dev", .version = "v1", .kind = "Whole", .plural = "wholes", .namespaced = true},
      .watches = watches,
      .watches_count = 1,
      .resync_every_ms = 3600000,
  };
}

static hs_key part_key(hs_key of, const char *ending) {
  return (hs_key){of.group, of.version, "Part", of.namespace, hs_format("%s-%s", of.name, ending)};
}

static char *part(hs_key of, const char *ending, const char *uid, const char *text) {
  const char *form = "{\"apiVersion\": \"layers.example.dev/v1\", \"kind\": \"Part\", \"metadata\": {\"name\": \"%s-%s\","
                     " \"namespace\": \"%s\", \"labels\": {\"of\": \"%s\"}, \"ownerReferences\": [{\"apiVersion\":"
                     " \"layers.example.dev/v1\", \"kind\": \"Whole\", \"name\": \"%s\", \"uid\": \"%s\"}]}, \"spec\": {\"text\": %s}}";
  return hs_format(form, of.name, ending, of.namespace, of.name, of.name, uid, hs_json_quote(text));
}

hs_result hs_reconcile(hs_key key) {
  hs_error error;
  char *whole = hs_get(key, &error);
  if (whole == NULL) return hs_failed(error);
  char *text = hs_json_text(whole, "/spec/text");
  char *uid = hs_json_text(whole, "/metadata/uid");
  if (text == NULL || uid == NULL) return hs_never("a text or a uid is missing");
  if (strcmp(text, "later") == 0) return hs_retry_after("not yet", 5000);
  if (hs_get(part_key(key, "part"), &error) == NULL) {
    if (error.reason != HS_NOT_FOUND) return hs_failed(error);
    if (hs_apply(part(key, "old", uid, text), false, &error) == NULL) return hs_failed(error);
    if (!hs_delete(part_key(key, "old"), &error) || !hs_delete(part_key(key, "old"), &error)) return hs_failed(error);
    char *made = hs_apply(part(key, "part", uid, text), false, &error);
    if (made == NULL) return hs_failed(error);
    hs_emit(false, "Made", hs_format("made %s", hs_json_text(made, "/metadata/name")));
  }
  hs_page page = {0};
  if (!hs_list(parts, key.namespace, uid, NULL, &page, &error)) return hs_failed(error);
  // Of the list `ownerReferences`, an item, and of it a member.
  for (size_t index = 0; index < page.count; index++) {
    if (strcmp(hs_json_text(page.documents[index], "/metadata/ownerReferences/0/uid"), uid) != 0) abort();
    if (strcmp(hs_json_value(page.documents[index], "/metadata/labels"), hs_format("{\"of\":\"%s\"}", key.name)) != 0) abort();
  }
  char *generation = hs_json_value(whole, "/metadata/generation");
  char *form = "{\"status\": {\"conditions\": %s}}";
  const bool is_short = strcmp(text, "x") == 0;
  char *list = hs_conditions(whole, (hs_condition){"Seen", "True", "Read", "", 0});
  hs_condition ready = {"Ready", "True", "Counted", hs_format("%zu part", page.count), strtoull(generation, NULL, 10)};
  list = hs_conditions(hs_format(form, list), ready);
  list = hs_conditions(hs_format(form, list), (hs_condition){"Short", is_short ? "True" : "False", "Read", "", 0});
  char *status = hs_format("{\"text\": %s, \"parts\": %zu, \"conditions\": %s}", hs_json_quote(text), page.count, list);
  if (!hs_update_status(key, status, &error)) return hs_failed(error);
  hs_info(hs_format("counted %zu", page.count));
  return hs_again(60000);
}
