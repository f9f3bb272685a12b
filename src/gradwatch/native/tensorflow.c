/* Operations for TensorFlow: the sweep in steps that XLA does not compile.
 *
 * TensorFlow's C interface for operations (tensorflow/c/ops.h, kernels.h) is stable and
 * plain C. Nothing is linked: Python looks the functions up in the library that
 * TensorFlow has loaded, and hands over their addresses (`struct tensorflow`).
 *
 * Every operation gets the detail of the step as its first input. In a step of detail 0
 * it reads nothing and leaves its results as they were allocated: that takes about a
 * microsecond, where a branch of the graph would take a hundred.
 *
 * Numbers leave a step through a *box*: memory of the host with a row of bytes for each
 * step of an execution. `GradwatchSend` copies into it, `GradwatchDetail` reads from one
 * how much of a step is recorded. A graph outlives the training that it was traced in,
 * so it knows a box by a number that is never given out twice, and not by its address.
 */
#include "sweep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Types of elements, as TensorFlow numbers them. */
enum {
    TF_FLOAT = 1, TF_DOUBLE = 2, TF_INT32 = 3, TF_UINT8 = 4, TF_BFLOAT16 = 14, TF_HALF = 19,
    TF_UINT32 = 22
};

/* The functions, in the order of `_FUNCTIONS` in backends/tensorflow/operations.py. */
static struct tensorflow {
    void *(*new_status)(void);
    void (*delete_status)(void *status);
    int (*code)(const void *status);
    void *(*new_operation)(const char *name);
    void (*add_attribute)(void *operation, const char *text);
    void (*add_input)(void *operation, const char *text);
    void (*add_output)(void *operation, const char *text);
    void (*set_stateful)(void *operation, bool stateful);
    void (*infer_shapes)(void *operation, void (*infer)(void *context, void *status));
    void (*set_unknown_shape)(void *context, void *status);
    void (*register_operation)(void *operation, void *status);
    void *(*new_kernel)(
        const char *operation, const char *device, void *(*create)(void *construction),
        void (*compute)(void *kernel, void *context), void (*delete_kernel)(void *kernel));
    void (*register_kernel)(const char *name, void *kernel, void *status);
    void (*read_integer)(void *construction, const char *name, int64_t *value, void *status);
    int (*count_inputs)(void *context);
    int (*count_outputs)(void *context);
    void (*set_output)(void *context, int index, const void *tensor, void *status);
    void (*get_input)(void *context, int index, void **tensor, void *status);
    void *(*allocate_output)(
        void *context, int index, int type, const int64_t *lengths, int rank, size_t bytes,
        void *status);
    int (*type)(const void *tensor);
    void *(*data)(const void *tensor);
    size_t (*bytes)(const void *tensor);
    int64_t (*elements)(const void *tensor);
    void (*delete_tensor)(void *tensor);
} tf;

/* ---- boxes ------------------------------------------------------------------------- */

enum { BOXES = 1024 };

static struct box {
    unsigned char *memory; /* NULL if this entry is free */
    int64_t stride, slots, number;
} boxes[BOXES];
static int64_t opened;
static char lock;

static void acquire(void)
{
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE)) {}
}

static void release(void) { __atomic_clear(&lock, __ATOMIC_RELEASE); }

/* Makes memory known as a box; returns its number, or -1 if too many are open. */
GW_EXPORT int64_t gw_box_open(void *memory, int64_t stride, int64_t slots)
{
    int64_t number = -1;
    acquire();
    for (int64_t tried = 0; tried < BOXES && number < 0; tried++) {
        struct box *box = &boxes[opened % BOXES];
        if (box->memory == NULL) {
            number = opened;
            *box = (struct box){memory, stride, slots, number};
        }
        opened++;
    }
    release();
    return number;
}

/* Forgets a box: its memory is not touched after this call. */
GW_EXPORT void gw_box_close(int64_t number)
{
    if (number < 0) return;
    acquire();
    if (boxes[number % BOXES].number == number) boxes[number % BOXES].memory = NULL;
    release();
}

/* Row of a slot, and its size; NULL if there is none. The lock must be held. */
static unsigned char *box_row(int64_t number, int64_t slot, int64_t *bytes)
{
    if (number < 0 || slot < 0) return NULL;
    const struct box *box = &boxes[number % BOXES];
    if (box->memory == NULL || box->number != number || slot >= box->slots) return NULL;
    *bytes = box->stride;
    return box->memory + slot * box->stride;
}

/* ---- inputs and outputs ------------------------------------------------------------ */

static int32_t integer_at(void *context, int index, void *status)
{
    void *tensor = NULL;
    int32_t value = 0;
    tf.get_input(context, index, &tensor, status);
    if (tensor == NULL) return 0;
    if (tf.bytes(tensor) >= sizeof value) memcpy(&value, tf.data(tensor), sizeof value);
    tf.delete_tensor(tensor);
    return value;
}

static float real_at(void *context, int index, void *status)
{
    void *tensor = NULL;
    float value = 1;
    tf.get_input(context, index, &tensor, status);
    if (tensor == NULL) return 1;
    if (tf.bytes(tensor) >= sizeof value) memcpy(&value, tf.data(tensor), sizeof value);
    tf.delete_tensor(tensor);
    return value;
}

/* Reads one input as a tensor; returns what keeps it alive, or NULL. */
static void *hold(void *context, int index, struct gw_tensor *tensor, void *status)
{
    void *held = NULL;
    tf.get_input(context, index, &held, status);
    if (held == NULL) return NULL;
    tensor->data = tf.data(held);
    tensor->size = tf.elements(held);
    switch (tf.type(held)) {
    case TF_FLOAT: tensor->type = GW_FLOAT32; return held;
    case TF_DOUBLE: tensor->type = GW_FLOAT64; return held;
    case TF_HALF: tensor->type = GW_FLOAT16; return held;
    case TF_BFLOAT16: tensor->type = GW_BFLOAT16; return held;
    default: tf.delete_tensor(held); return NULL; /* the operation admits no other */
    }
}

/* Allocates a result `[count, width]`; NULL if there is no memory, which TensorFlow then
 * reports itself. */
static void *allocate(
    void *context, int index, int type, int64_t count, int64_t width, size_t item, void *status)
{
    int64_t lengths[2] = {count, width};
    size_t bytes = (size_t)(count * width) * item;
    return tf.allocate_output(context, index, type, lengths, width == 1 ? 1 : 2, bytes, status);
}

/* ---- kernels ----------------------------------------------------------------------- */

/* The attributes of an operation; those that it does not have are 0. */
struct kernel {
    int64_t number;    /* of a box, or of bytes */
    int64_t resources; /* number of inputs at the end that are variables */
};

static const struct kernel *attributes_of(const void *kernel)
{
    static const struct kernel none = {-1, 0};
    return kernel == NULL ? &none : kernel;
}

static void compute_detail(void *kernel, void *context)
{
    void *status = tf.new_status();
    int32_t detail = 0, slot = integer_at(context, 0, status);
    int64_t bytes = 0;
    acquire();
    const unsigned char *row = box_row(attributes_of(kernel)->number, slot, &bytes);
    if (row != NULL && bytes >= (int64_t)sizeof detail) memcpy(&detail, row, sizeof detail);
    release();
    void *output = tf.allocate_output(context, 0, TF_INT32, NULL, 0, sizeof detail, status);
    if (output != NULL) {
        memcpy(tf.data(output), &detail, sizeof detail);
        tf.delete_tensor(output);
    }
    tf.delete_status(status);
}

static void measure_all(void *context, int detail, void *status, double *rows, uint32_t *counts)
{
    double scale = real_at(context, 1, status);
    int64_t count = tf.count_inputs(context) - 2;
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor tensor;
        double wide[GW_BUCKETS] = {0};
        void *held = hold(context, (int)i + 2, &tensor, status);
        if (held == NULL) continue;
        gw_measure_one(&tensor, scale, rows + i * GW_COLUMNS);
        if (detail >= 2) {
            gw_count_one(&tensor, scale, wide);
            for (int k = 0; k < GW_BUCKETS; k++) counts[i * GW_BUCKETS + k] = (uint32_t)wide[k];
        }
        tf.delete_tensor(held);
    }
    gw_environment_leave(saved);
}

static void compute_measure(void *kernel, void *context)
{
    (void)kernel;
    void *status = tf.new_status();
    int32_t detail = integer_at(context, 0, status);
    int64_t count = tf.count_inputs(context) - 2;
    void *rows = allocate(context, 0, TF_DOUBLE, count, GW_COLUMNS, sizeof(double), status);
    void *counts = allocate(context, 1, TF_UINT32, count, GW_BUCKETS, sizeof(uint32_t), status);
    if (rows != NULL && counts != NULL && detail > 0)
        measure_all(context, detail, status, tf.data(rows), tf.data(counts));
    if (rows != NULL) tf.delete_tensor(rows);
    if (counts != NULL) tf.delete_tensor(counts);
    for (int i = 2; i < tf.count_outputs(context); i++) {
        void *passed = NULL;
        tf.get_input(context, i, &passed, status);
        if (passed == NULL) continue;
        tf.set_output(context, i, passed, status);
        tf.delete_tensor(passed);
    }
    tf.delete_status(status);
}

static void compute_norms(void *kernel, void *context)
{
    (void)kernel;
    void *status = tf.new_status();
    int32_t detail = integer_at(context, 0, status);
    int64_t count = tf.count_inputs(context) - 1;
    void *output = allocate(context, 0, TF_DOUBLE, count, 1, sizeof(double), status);
    if (output != NULL && detail > 0) {
        double *norms = tf.data(output);
        uint32_t saved = gw_environment_enter();
        for (int64_t i = 0; i < count; i++) {
            struct gw_tensor tensor;
            void *held = hold(context, (int)i + 1, &tensor, status);
            if (held == NULL) continue;
            norms[i] = gw_norm_one(&tensor);
            tf.delete_tensor(held);
        }
        gw_environment_leave(saved);
    }
    if (output != NULL) tf.delete_tensor(output);
    tf.delete_status(status);
}

/* The size of all samples, in bytes, comes as an attribute: a step that is not recorded
 * looks at no tensor. The variables that hold the tensors are inputs for one reason only:
 * TensorFlow then writes to them after the sample was taken. To a tensor that is still
 * read it would not write, but copy it. */
static void compute_sample(void *kernel, void *context)
{
    void *status = tf.new_status();
    int32_t detail = integer_at(context, 0, status);
    int64_t bytes = attributes_of(kernel)->number;
    void *output = allocate(context, 0, TF_UINT8, bytes, 1, 1, status);
    if (output != NULL && detail > 0) {
        unsigned char *to = tf.data(output), *end = to + bytes;
        int count = tf.count_inputs(context) - (int)attributes_of(kernel)->resources;
        for (int i = 1; i < count; i++) {
            struct gw_tensor tensor;
            void *held = hold(context, i, &tensor, status);
            if (held == NULL) break;
            int64_t taken = gw_sample_bytes_one(tensor.size, tensor.type);
            if (taken <= end - to) gw_sample_one(&tensor, to);
            to += taken <= end - to ? taken : end - to;
            tf.delete_tensor(held);
        }
    }
    if (output != NULL) tf.delete_tensor(output);
    tf.delete_status(status);
}

static void compare(void *context, const void *sample, double *rows, void *status)
{
    const unsigned char *from = tf.data(sample), *end = from + tf.bytes(sample);
    int64_t count = tf.count_inputs(context) - 2;
    uint32_t saved = gw_environment_enter();
    for (int64_t i = 0; i < count; i++) {
        struct gw_tensor after;
        void *held = hold(context, (int)i + 2, &after, status);
        if (held == NULL) break;
        int64_t taken = gw_sample_bytes_one(after.size, after.type);
        if (taken <= end - from) {
            gw_moves_one(&after, from, rows + i * GW_MOVES);
            from += taken;
        }
        tf.delete_tensor(held);
    }
    gw_environment_leave(saved);
}

static void compute_moves(void *kernel, void *context)
{
    (void)kernel;
    void *status = tf.new_status(), *sample = NULL;
    int32_t detail = integer_at(context, 0, status);
    int64_t count = tf.count_inputs(context) - 2;
    void *output = allocate(context, 0, TF_DOUBLE, count, GW_MOVES, sizeof(double), status);
    if (output != NULL && detail > 0) {
        tf.get_input(context, 1, &sample, status);
        if (sample != NULL) {
            compare(context, sample, tf.data(output), status);
            tf.delete_tensor(sample);
        }
    }
    if (output != NULL) tf.delete_tensor(output);
    tf.delete_status(status);
}

/* A row begins with the number of times that it was written; the parts follow, each at a
 * multiple of eight bytes. What does not fit is not written, nor anything after it. */
static void compute_send(void *kernel, void *context)
{
    void *status = tf.new_status();
    if (integer_at(context, 0, status) > 0) {
        int64_t at = sizeof(int64_t), stride = 0, written;
        int32_t slot = integer_at(context, 1, status);
        acquire();
        unsigned char *row = box_row(attributes_of(kernel)->number, slot, &stride);
        for (int i = 2; row != NULL && i < tf.count_inputs(context); i++) {
            void *part = NULL;
            tf.get_input(context, i, &part, status);
            if (part == NULL) break;
            int64_t bytes = (int64_t)tf.bytes(part);
            if (bytes <= stride - at) memcpy(row + at, tf.data(part), (size_t)bytes);
            at += (bytes + 7) / 8 * 8;
            tf.delete_tensor(part);
        }
        if (row != NULL && at <= stride) {
            memcpy(&written, row, sizeof written);
            written++;
            memcpy(row, &written, sizeof written);
        }
        release();
    }
    tf.delete_status(status);
}

/* ---- registration ------------------------------------------------------------------ */

static void *create(void *construction)
{
    struct kernel *kernel = calloc(1, sizeof *kernel);
    void *status = tf.new_status();
    if (kernel != NULL) {
        tf.read_integer(construction, "number", &kernel->number, status);
        tf.read_integer(construction, "N", &kernel->resources, status);
    }
    tf.delete_status(status);
    return kernel;
}

static void forget(void *kernel) { free(kernel); }

static void infer_nothing(void *context, void *status)
{
    tf.set_unknown_shape(context, status);
}

struct operation {
    const char *name, *attributes[3], *inputs[3], *outputs[3];
    void (*compute)(void *kernel, void *context);
    bool stateful;
};

/* TensorFlow runs stateful operations in the order in which they were traced. What only
 * computes is not one: measured in that order, the gradient of the last layer, which is
 * there first, and the update that it is for would wait for that of the first. */
#define FLOATS "T: list({half, bfloat16, float, double}) >= 0"

static const struct operation operations[] = {
    {"GradwatchDetail", {"number: int"}, {"slot: int32"}, {"detail: int32"}, compute_detail,
     true},
    {"GradwatchMeasure", {FLOATS, "U: list(type) >= 0"},
     {"detail: int32", "scale: float", "tensors: T"},
     {"rows: double", "counts: uint32", "passed: U"}, compute_measure, false},
    {"GradwatchNorms", {FLOATS}, {"detail: int32", "tensors: T"},
     {"norms: double"}, compute_norms, false},
    {"GradwatchSample", {"number: int", FLOATS, "N: int >= 0"},
     {"detail: int32", "tensors: T", "variables: N * resource"}, {"sample: uint8"},
     compute_sample, true},
    {"GradwatchMoves", {FLOATS},
     {"detail: int32", "sample: uint8", "tensors: T"}, {"moves: double"}, compute_moves,
     false},
    {"GradwatchSend", {"number: int", "T: list(type) >= 0"},
     {"detail: int32", "slot: int32", "parts: T"}, {NULL}, compute_send, true},
};

static int register_one(const struct operation *operation)
{
    void *status = tf.new_status(), *definition = tf.new_operation(operation->name);
    for (int i = 0; i < 3; i++)
        if (operation->attributes[i]) tf.add_attribute(definition, operation->attributes[i]);
    for (int i = 0; i < 3; i++)
        if (operation->inputs[i]) tf.add_input(definition, operation->inputs[i]);
    for (int i = 0; i < 3; i++)
        if (operation->outputs[i]) tf.add_output(definition, operation->outputs[i]);
    if (operation->stateful) tf.set_stateful(definition, true); /* even if told false */
    tf.infer_shapes(definition, infer_nothing);
    tf.register_operation(definition, status);
    int failed = tf.code(status);
    if (!failed) {
        void *kernel = tf.new_kernel(operation->name, "CPU", create, operation->compute, forget);
        tf.register_kernel(operation->name, kernel, status);
        failed = tf.code(status);
    }
    tf.delete_status(status);
    return failed;
}

/* Registers the operations, once per process; returns 0 if all are there.
 *
 * `functions` holds the addresses in the order of `struct tensorflow`. TensorFlow ends
 * the process if a name is registered twice, so the caller asks before: without
 * functions, this returns 0 if it has been called with them, and -1 if not. */
GW_EXPORT int32_t gw_tensorflow_register(const void *functions, int64_t count)
{
    static int is_done;
    if (is_done) return 0;
    if (count * sizeof(void *) != sizeof tf) return -1;
    memcpy(&tf, functions, sizeof tf);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (register_one(&operations[i])) return (int32_t)i + 1;
    is_done = 1;
    return 0;
}
