// Conditions of a resource: `status.conditions`.

#include <string.h>
#include <time.h>

#include "homeostat.h"

static char *now(void) {
  static char text[sizeof "2026-01-01T00:00:00Z"];
  const time_t seconds = time(NULL);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
  return text;
}

static char *item(hs_condition set, const char *since) {
  const char *generation = "";
  if (set.observed_generation > 0) {
    generation = hs_format(", \"observedGeneration\": %llu", (unsigned long long)set.observed_generation);
  }
  return hs_format(
      "{\"type\": %s, \"status\": %s, \"reason\": %s, \"message\": %s, \"lastTransitionTime\": \"%s\"%s}",
      hs_json_quote(set.type), hs_json_quote(set.status), hs_json_quote(set.reason), hs_json_quote(set.message), since, generation);
}

char *hs_conditions(const char *document, hs_condition set) {
  const char *list = "", *comma = "";
  bool found = false;
  for (size_t index = 0;; index++) {
    char *at = hs_format("/status/conditions/%zu", index);
    char *one = hs_json_value(document, at);
    if (one == NULL) break;
    const char *type = hs_json_text(one, "/type"), *status = hs_json_text(one, "/status");
    if (type != NULL && strcmp(type, set.type) == 0) {
      const char *since = hs_json_text(one, "/lastTransitionTime");
      const bool is_same = status != NULL && strcmp(status, set.status) == 0 && since != NULL;
      one = item(set, is_same ? since : now());
      found = true;
    }
    list = hs_format("%s%s%s", list, comma, one);
    comma = ", ";
  }
  return found ? hs_format("[%s]", list) : hs_format("[%s%s%s]", list, comma, item(set, now()));
}
