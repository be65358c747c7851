/* An NVTX tool that writes down every call of the process it is injected into.
 *
 *   NVTX_INJECTION64_PATH=.../recorder.so NVTX_RECORDER_FOLDER=/some/folder python app.py
 *
 * Needs no NVIDIA header, no GPU and no driver: what it uses of NVTX's interface for tools is
 * declared below. Records of a fixed size go straight into a file mapped into memory,
 * FOLDER/PID.nvtx: nothing is lost when the process is killed, and a call costs one clock
 * read and one copy. recorder.py has the same layout.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- the part of NVTX's interface for tools that is used here (64 bits) ---- */

typedef void (*function_t)(void);

typedef struct {
  size_t struct_size;
  int (*get_functions)(int module, function_t ***table, unsigned *size);
} callbacks_t;

typedef const void *(*get_export_table_t)(uint32_t id);

enum { TABLE_CALLBACKS = 1 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { CORE_MARK_A = 2, CORE_PUSH_EX = 8, CORE_PUSH_A = 9, CORE_POP = 11 };
enum {
  DOMAIN_MARK_EX = 1,
  DOMAIN_PUSH_EX = 4,
  DOMAIN_POP = 5,
  DOMAIN_REGISTER_STRING_A = 10,
  DOMAIN_CREATE_A = 12,
  DOMAIN_DESTROY = 14
};
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3 };
enum { NO_PUSH_POP_TRACKING = -2 };

typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} attributes_t;

typedef struct {
  size_t id, slots;
  intptr_t *functions;
} segment_t;

typedef struct {
  uint16_t nvtx_version, struct_size, module, compatibility;
  size_t segments_count;
  segment_t *segments;
} extension_t;

enum { EXTENSION_PAYLOAD = 2, SLOT_DOMAIN_IS_ENABLED = 7 };

/* ---- the file ---- */

enum { OP_DOMAIN = 1, OP_STRING, OP_PUSH, OP_POP, OP_MARK, OP_DESTROY };
enum { DOMAIN_BYTES = 24, TEXT_BYTES = 72, CAPACITY = 1 << 18 };

typedef struct {
  uint64_t time_ns;
  uint32_t thread;
  int32_t payload_type;
  uint64_t payload;
  char domain[DOMAIN_BYTES];
  char text[TEXT_BYTES];
  _Atomic uint64_t op; /* written last: 0 is a record that is not whole */
} record_t;

_Static_assert(sizeof(record_t) == 128, "recorder.py expects this size");

typedef struct {
  _Atomic uint64_t calls; /* more than CAPACITY: the rest was dropped */
  char unused[sizeof(record_t) - sizeof(uint64_t)];
  record_t records[CAPACITY];
} file_t;

static file_t *file;

static void copy(char *to, const char *from, size_t bytes) {
  if (from) strncpy(to, from, bytes - 1); /* the file was zeroes: it ends with one */
}

static void write_record(int op, const char *domain, const char *text, int type, uint64_t payload) {
  if (!file) return;
  uint64_t index = atomic_fetch_add(&file->calls, 1);
  if (index >= CAPACITY) return;
  record_t *record = &file->records[index];
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  record->time_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
  static __thread uint32_t thread;
  if (!thread) thread = (uint32_t)syscall(SYS_gettid);
  record->thread = thread;
  record->payload_type = type;
  record->payload = payload;
  copy(record->domain, domain, DOMAIN_BYTES);
  copy(record->text, text, TEXT_BYTES);
  atomic_store_explicit(&record->op, (uint64_t)op, memory_order_release);
}

static void open_file(void) {
  const char *folder = getenv("NVTX_RECORDER_FOLDER");
  char path[4096];
  if (!folder || snprintf(path, sizeof path, "%s/%d.nvtx", folder, getpid()) >= (int)sizeof path)
    return;
  int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (descriptor < 0) return;
  if (ftruncate(descriptor, sizeof(file_t)) == 0) {
    void *mapped = mmap(NULL, sizeof(file_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (mapped != MAP_FAILED) file = mapped;
  }
  close(descriptor);
}

/* ---- what NVTX calls; a domain's and a string's handle is a copy of its name ---- */

static void *create_domain(const char *name) {
  write_record(OP_DOMAIN, name, name, 0, 0);
  return strdup(name ? name : "");
}

static void destroy_domain(void *domain) { write_record(OP_DESTROY, domain, NULL, 0, 0); }

static void *register_string(void *domain, const char *text) {
  write_record(OP_STRING, domain, text, 0, 0);
  return strdup(text ? text : "");
}

static void write_event(int op, const char *domain, const attributes_t *event) {
  int readable = event->message_type == MESSAGE_ASCII || event->message_type == MESSAGE_REGISTERED;
  const char *text = readable ? event->message : NULL;
  write_record(op, domain, text, event->payload_type, event->payload);
}

static int domain_push(void *domain, const attributes_t *event) {
  write_event(OP_PUSH, domain, event);
  return NO_PUSH_POP_TRACKING;
}

static int domain_pop(void *domain) {
  write_record(OP_POP, domain, NULL, 0, 0);
  return NO_PUSH_POP_TRACKING;
}

static void domain_mark(void *domain, const attributes_t *event) {
  write_event(OP_MARK, domain, event);
}

static int push_event(const attributes_t *event) { return domain_push(NULL, event); }

static int push(const char *text) {
  write_record(OP_PUSH, NULL, text, 0, 0);
  return NO_PUSH_POP_TRACKING;
}

static int pop(void) { return domain_pop(NULL); }

static void mark(const char *text) { write_record(OP_MARK, NULL, text, 0, 0); }

static uint8_t domain_is_enabled(void *domain) {
  const char *deaf = getenv("NVTX_RECORDER_DEAF_TO");
  return !(deaf && domain && !strcmp(deaf, domain));
}

/* ---- how NVTX finds them ---- */

typedef struct {
  unsigned slot;
  function_t function;
} entry_t;

static const entry_t CORE[] = {
    {CORE_MARK_A, (function_t)mark},
    {CORE_PUSH_EX, (function_t)push_event},
    {CORE_PUSH_A, (function_t)push},
    {CORE_POP, (function_t)pop},
};

static const entry_t CORE2[] = {
    {DOMAIN_MARK_EX, (function_t)domain_mark},
    {DOMAIN_PUSH_EX, (function_t)domain_push},
    {DOMAIN_POP, (function_t)domain_pop},
    {DOMAIN_REGISTER_STRING_A, (function_t)register_string},
    {DOMAIN_CREATE_A, (function_t)create_domain},
    {DOMAIN_DESTROY, (function_t)destroy_domain},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(const callbacks_t *callbacks, int module, const entry_t *entries, size_t count) {
  function_t **table;
  unsigned size;
  if (!callbacks->get_functions(module, &table, &size)) return;
  for (size_t i = 0; i < count; i++)
    if (entries[i].slot < size && table[entries[i].slot])
      *table[entries[i].slot] = entries[i].function;
}

/* Called once for each shared object that has NVTX in it. */
int InitializeInjectionNvtx2(get_export_table_t get_export_table) {
  const callbacks_t *callbacks = get_export_table(TABLE_CALLBACKS);
  pthread_once(&once, open_file);
  if (!callbacks || !file) return 0;
  fill(callbacks, MODULE_CORE, CORE, sizeof CORE / sizeof *CORE);
  fill(callbacks, MODULE_CORE2, CORE2, sizeof CORE2 / sizeof *CORE2);
  return 1;
}

int InitializeInjectionNvtxExtension(extension_t *extension) {
  if (extension->module != EXTENSION_PAYLOAD || getenv("NVTX_RECORDER_OLD")) return 0;
  if (extension->segments_count < 1 || extension->segments[0].slots <= SLOT_DOMAIN_IS_ENABLED)
    return 0;
  extension->segments[0].functions[SLOT_DOMAIN_IS_ENABLED] = (intptr_t)domain_is_enabled;
  return 1;
}
