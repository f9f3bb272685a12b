/* A TensorFlow of a few lines for memory.c: registers the operations, and runs each on
 * tensors that end where their memory ends, for AddressSanitizer to watch. */
#include "sweep.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

int64_t gw_box_open(void *memory, int64_t stride, int64_t slots);
void gw_box_close(int64_t number);
int32_t gw_tensorflow_register(const void *functions, int64_t count);
int64_t try_operations(const void *tensor, int64_t size, int32_t type, int64_t sample_bytes);

enum { INPUTS = 4, OUTPUTS = 3, KERNELS = 6 };

struct fake { int type; void *data; int64_t size; size_t bytes; };
struct context { struct fake inputs[INPUTS], outputs[OUTPUTS]; int count, made; };
struct registered { char name[32]; void *(*create)(void *); void (*compute)(void *, void *); void (*forget)(void *); };

static struct registered kernels[KERNELS];
static int known;
static int64_t number, resources;

static void *new_status(void) { return malloc(1); }
static void delete_status(void *status) { free(status); }
static int code(const void *status) { (void)status; return 0; }
static void *new_operation(const char *name) { (void)name; return NULL; }
static void add(void *operation, const char *text) { (void)operation, (void)text; }
static void set_stateful(void *operation, bool stateful) { (void)operation, (void)stateful; }
static void infer_shapes(void *operation, void (*infer)(void *, void *)) { infer(operation, NULL); }
static void set_unknown(void *context, void *status) { (void)context, (void)status; }
static void register_operation(void *operation, void *status) { (void)operation, (void)status; }

static void *new_kernel(const char *operation, const char *device, void *(*create)(void *),
    void (*compute)(void *, void *), void (*forget)(void *))
{
    struct registered *kernel = &kernels[known++];
    (void)device;
    snprintf(kernel->name, sizeof kernel->name, "%s", operation);
    kernel->create = create, kernel->compute = compute, kernel->forget = forget;
    return kernel;
}

static void register_kernel(const char *name, void *kernel, void *status) { (void)name, (void)kernel, (void)status; }

static void read_integer(void *construction, const char *name, int64_t *value, void *status)
{
    (void)construction, (void)status;
    *value = name[0] == 'N' ? resources : number;
}

static int count_inputs(void *context) { return ((struct context *)context)->count; }
static int count_outputs(void *context) { return ((struct context *)context)->made; }

static void get_input(void *context, int index, void **tensor, void *status)
{
    struct context *all = context;
    (void)status;
    if (index >= all->count) printf("input %d of %d\n", index, all->count), exit(1);
    struct fake *copy = malloc(sizeof *copy);
    *copy = all->inputs[index];
    *tensor = copy;
}

static void set_output(void *context, int index, const void *tensor, void *status)
{
    (void)status;
    if (index >= ((struct context *)context)->made || tensor == NULL) printf("output %d\n", index), exit(1);
}

static void *allocate_output(void *context, int index, int type, const int64_t *lengths, int rank, size_t bytes, void *status)
{
    struct fake *output = &((struct context *)context)->outputs[index], *copy = malloc(sizeof *copy);
    (void)status, (void)lengths, (void)rank;
    *output = (struct fake){type, malloc(bytes + (bytes == 0)), (int64_t)bytes, bytes};
    *copy = *output;
    return copy;
}

static int type_of(const void *tensor) { return ((const struct fake *)tensor)->type; }
static void *data(const void *tensor) { return ((const struct fake *)tensor)->data; }
static size_t bytes_of(const void *tensor) { return ((const struct fake *)tensor)->bytes; }
static int64_t elements(const void *tensor) { return ((const struct fake *)tensor)->size; }
static void delete_tensor(void *tensor) { free(tensor); }

static void register_all(void)
{
    void *functions[] = {(void *)new_status, (void *)delete_status, (void *)code, (void *)new_operation, (void *)add,
        (void *)add, (void *)add, (void *)set_stateful, (void *)infer_shapes, (void *)set_unknown,
        (void *)register_operation, (void *)new_kernel, (void *)register_kernel, (void *)read_integer,
        (void *)count_inputs, (void *)count_outputs, (void *)set_output, (void *)get_input, (void *)allocate_output,
        (void *)type_of, (void *)data, (void *)bytes_of, (void *)elements, (void *)delete_tensor};
    if (gw_tensorflow_register(functions, sizeof functions / sizeof *functions)) printf("not registered\n"), exit(1);
}

/* Runs an operation on inputs whose memory ends with them; returns 1. */
static int run(const char *name, int made, int count, const struct fake *inputs)
{
    struct context context = {.count = count, .made = made};
    struct registered *kernel = kernels;
    while (strcmp(kernel->name, name)) kernel++;
    for (int i = 0; i < count; i++) {
        context.inputs[i] = inputs[i];
        context.inputs[i].data = malloc(inputs[i].bytes + (inputs[i].bytes == 0));
        memcpy(context.inputs[i].data, inputs[i].data, inputs[i].bytes);
    }
    void *state = kernel->create(NULL);
    kernel->compute(state, &context);
    kernel->forget(state);
    for (int i = 0; i < count; i++) free(context.inputs[i].data);
    for (int i = 0; i < OUTPUTS; i++) free(context.outputs[i].data);
    return 1;
}

int64_t try_operations(const void *tensor, int64_t size, int32_t type, int64_t sample_bytes)
{
    static const int types[] = {1, 2, 19, 14};
    int64_t calls = 0, row = 8 + size * gw_item_bytes(type);
    unsigned char *memory = calloc(1, (size_t)row), *sample = calloc(1, (size_t)sample_bytes + 1);
    int64_t box = gw_box_open(memory, row, 1);
    if (!known) register_all();
    struct fake given = {types[type], (void *)tensor, size, (size_t)(size * gw_item_bytes(type))};
    for (int32_t detail = 0; detail < 3; detail++) {
        float factor = 3.7f;
        int32_t slots[] = {0, 1, -1};
        struct fake wanted = {3, &detail, 1, 4}, scale = {1, &factor, 1, 4};
        struct fake taken = {4, sample, sample_bytes, (size_t)sample_bytes};
        struct fake short_one = {4, sample, sample_bytes / 2, (size_t)(sample_bytes / 2)};
        calls += run("GradwatchMeasure", 3, 3, (struct fake[]){wanted, scale, given});
        calls += run("GradwatchNorms", 1, 2, (struct fake[]){wanted, given});
        calls += run("GradwatchMoves", 1, 3, (struct fake[]){wanted, taken, given});
        calls += run("GradwatchMoves", 1, 3, (struct fake[]){wanted, short_one, given});
        for (resources = 0; resources < 2; resources++)
            for (number = sample_bytes / 2; number <= sample_bytes; number += sample_bytes - sample_bytes / 2 + 1)
                calls += run("GradwatchSample", 1, 2 + (int)resources, (struct fake[]){wanted, given, given});
        resources = 0;
        for (int i = 0; i < 3; i++) {
            struct fake slot = {3, &slots[i], 1, 4};
            for (number = box - 1; number <= box + 1; number++) {
                calls += run("GradwatchDetail", 1, 1, &slot);
                calls += run("GradwatchSend", 0, 3, (struct fake[]){wanted, slot, given});
                calls += run("GradwatchSend", 0, 4, (struct fake[]){wanted, slot, given, given});
            }
        }
    }
    gw_box_close(box);
    free(memory), free(sample);
    return calls;
}
