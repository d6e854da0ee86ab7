// As much of JSON as controllers need: values by their pointers, and strings. Documents of the host are valid JSON.

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "homeostat.h"

static void *allocate(size_t bytes) {
  void *at = malloc(bytes);
  if (at == NULL) abort();
  return at;
}

static const char *skip_space(const char *at) { return at + strspn(at, " \t\r\n"); }

// Returns the end of the string that begins at this quote.
static const char *skip_string(const char *at) {
  for (at++; *at != '"' && *at != '\0'; at++) {
    if (*at == '\\' && at[1] != '\0') at++;
  }
  return *at == '"' ? at + 1 : at;
}

// Returns the end of the value that begins here.
static const char *skip_value(const char *at) {
  int depth = 0;
  at = skip_space(at);
  do {
    if (*at == '"') {
      at = skip_string(at);
    } else if (*at == '{' || *at == '[') {
      depth++;
      at++;
    } else if (*at == '}' || *at == ']') {
      depth--;
      at++;
    } else if (depth == 0) {
      return at + strcspn(at, ",]} \t\r\n");
    } else {
      at++;
    }
  } while (depth > 0 && *at != '\0');
  return at;
}

// Returns the value of a member of an object, or of an item of a list by its index. NULL if there is none.
static const char *member(const char *at, const char *name, size_t bytes) {
  at = skip_space(at);
  const bool is_list = *at == '[';
  if (!is_list && *at != '{') return NULL;
  size_t index = 0;
  const size_t wanted = is_list ? strtoul(name, NULL, 10) : 0;
  for (at = skip_space(at + 1); *at != '}' && *at != ']' && *at != '\0'; index++) {
    bool found = is_list && index == wanted;
    if (!is_list) {
      const char *end = skip_string(at);
      found = (size_t)(end - at) == bytes + 2 && strncmp(at + 1, name, bytes) == 0;
      at = skip_space(end);
      if (*at == ':') at = skip_space(at + 1);
    }
    if (found) return at;
    at = skip_space(skip_value(at));
    if (*at == ',') at = skip_space(at + 1);
  }
  return NULL;
}

static const char *find(const char *at, const char *pointer) {
  while (at != NULL && *pointer == '/') {
    const char *name = pointer + 1;
    const size_t bytes = strcspn(name, "/");
    at = member(at, name, bytes);
    pointer = name + bytes;
  }
  return at == NULL ? NULL : skip_space(at);
}

static char *cut(const char *at, const char *end) {
  char *text = allocate((size_t)(end - at) + 1);
  memcpy(text, at, (size_t)(end - at));
  text[end - at] = '\0';
  return text;
}

// Returns the code unit of four hexadecimal digits.
static unsigned unit(const char *at) {
  char digits[5] = {0};
  strncpy(digits, at, 4);
  return (unsigned)strtoul(digits, NULL, 16);
}

// Writes a character in UTF-8, and returns its end.
static char *put(char *to, unsigned character) {
  if (character < 0x80) {
    *to++ = (char)character;
  } else if (character < 0x800) {
    *to++ = (char)(0xc0 | character >> 6);
    *to++ = (char)(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    *to++ = (char)(0xe0 | character >> 12);
    *to++ = (char)(0x80 | (character >> 6 & 0x3f));
    *to++ = (char)(0x80 | (character & 0x3f));
  } else {
    *to++ = (char)(0xf0 | character >> 18);
    *to++ = (char)(0x80 | (character >> 12 & 0x3f));
    *to++ = (char)(0x80 | (character >> 6 & 0x3f));
    *to++ = (char)(0x80 | (character & 0x3f));
  }
  return to;
}

char *hs_json_value(const char *document, const char *pointer) {
  const char *at = find(document, pointer);
  return at == NULL ? NULL : cut(at, skip_value(at));
}

char *hs_json_text(const char *document, const char *pointer) {
  const char *at = find(document, pointer);
  if (at == NULL || *at != '"') return NULL;
  const char *end = skip_string(at) - 1;
  char *text = allocate((size_t)(end - at) + 1), *to = text;
  for (at++; at < end; at++) {
    if (*at != '\\') {
      *to++ = *at;
      continue;
    }
    static const char names[] = "bfnrt", characters[] = "\b\f\n\r\t";
    const char *name = strchr(names, *++at);
    if (*at == 'u') {
      unsigned character = unit(at + 1);
      at += 4;
      if (character >> 10 == 0x36 && at[1] == '\\' && at[2] == 'u') {
        character = 0x10000 + ((character & 0x3ff) << 10 | (unit(at + 3) & 0x3ff));
        at += 6;
      }
      to = put(to, character);
    } else {
      *to++ = name == NULL ? *at : characters[name - names];
    }
  }
  *to = '\0';
  return text;
}

char *hs_json_quote(const char *text) {
  char *quoted = allocate(6 * strlen(text) + 3), *to = quoted;
  *to++ = '"';
  for (; *text != '\0'; text++) {
    if ((unsigned char)*text < 0x20) {
      to += sprintf(to, "\\u%04x", (unsigned)*text);
    } else {
      if (*text == '"' || *text == '\\') *to++ = '\\';
      *to++ = *text;
    }
  }
  *to++ = '"';
  *to = '\0';
  return quoted;
}

char *hs_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int bytes = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = allocate((size_t)bytes + 1);
  va_start(arguments, format);
  vsnprintf(text, (size_t)bytes + 1, format, arguments);
  va_end(arguments);
  return text;
}
