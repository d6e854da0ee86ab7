// A controller that greets the name in each Greeting.

#include <stdlib.h>

#include "homeostat.h"

hs_controller hs_describe(void) {
  return (hs_controller){
      .manages = {.group = "{{name}}.example.dev", .version = "v1", .kind = "Greeting", .plural = "greetings", .namespaced = true},
  };
}

hs_result hs_reconcile(hs_key key) {
  // The key is all there is: the greeting may be gone by now.
  hs_error error;
  char *greeting = hs_get(key, &error);
  if (greeting == NULL) return error.reason == HS_NOT_FOUND ? hs_settled() : hs_failed(error);
  char *name = hs_json_text(greeting, "/spec/name");
  if (name == NULL || *name == '\0') {
    // Trying again cannot help: the key waits until its resource changes.
    return hs_never("spec.name is empty");
  }
  char *message = hs_format("Hello, %s!", name);
  char *status = hs_format("{\"message\": %s}", hs_json_quote(message));
  if (!hs_update_status(key, status, &error)) return hs_failed(error);
  return hs_settled();
}
