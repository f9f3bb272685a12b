/* Calls every function of the sweep on tensors that end where their memory ends, for
 * AddressSanitizer or valgrind to watch. Elements are random bits: NaN, infinities and
 * denormals are among them. Prints the number of calls. */
#include "sweep.h"
#include "xla_ffi.h"

#include <stdio.h>
#include <stdlib.h>

void gw_measure(int64_t, const int64_t *, const int32_t *, const void *const *, double, int32_t, double *, double *);
void gw_norms(int64_t, const int64_t *, const int32_t *, const void *const *, double *);
int64_t gw_sample_bytes(int64_t, const int64_t *, const int32_t *);
void gw_sample(int64_t, const int64_t *, const int32_t *, const void *const *, void *);
void gw_moves(int64_t, const int64_t *, const int32_t *, const void *, const void *const *, double *);
struct ffi_error *GwMeasure(struct ffi_call *);
struct ffi_error *GwSample(struct ffi_call *);
struct ffi_error *GwMoves(struct ffi_call *);
struct ffi_error *GwNorms(struct ffi_call *);
int64_t try_operations(const void *, int64_t, int32_t, int64_t); /* operations.c */

static const int64_t SIZES[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 255, 256, 257,
    1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 6145, 65535, 65536, 65537, 66000, 131075};
static const int32_t FFI_TYPES[] = {FFI_FLOAT32, FFI_FLOAT64, FFI_FLOAT16, FFI_BFLOAT16};
static const double SCALES[] = {1, 32768, 3.7, 1e-30};
static int64_t calls;
static uint64_t state = 88172645463325252u;

/* A tensor of random bits, `offset` bytes into memory that ends with it. */
static unsigned char *random_tensor(int64_t bytes, int64_t offset)
{
    unsigned char *memory = malloc((size_t)(bytes + offset) + (bytes + offset == 0));
    for (int64_t i = 0; i < bytes + offset; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memory[i] = (unsigned char)(state >> 32);
    }
    return memory;
}

static struct ffi_error *make_error(struct ffi_error_request *request)
{
    return (struct ffi_error *)(uintptr_t)(request->message[0] != 0);
}

/* Calls one handler with buffers of these types and lengths. */
static void call_handler(struct ffi_error *(*handler)(struct ffi_call *), int arguments, int results,
    const int32_t *types, const int64_t *lengths, void **data, int fails)
{
    struct ffi_buffer buffers[4];
    void *addresses[4];
    int32_t kinds[4];
    int64_t dims[4];
    struct ffi_api api = {0};
    struct ffi_call call = {0};
    memset(buffers, 0, sizeof buffers);
    for (int i = 0; i < arguments + results; i++) {
        dims[i] = lengths[i];
        buffers[i].type = types[i], buffers[i].data = data[i];
        buffers[i].rank = 1, buffers[i].lengths = dims + i;
        addresses[i] = buffers + i, kinds[i] = FFI_KIND_BUFFER;
    }
    api.make_error = make_error;
    call.api = &api, call.stage = FFI_STAGE_EXECUTE;
    call.arguments.count = arguments, call.arguments.kinds = kinds, call.arguments.values = addresses;
    call.results.count = results, call.results.kinds = kinds + arguments;
    call.results.values = addresses + arguments;
    if ((handler(&call) != NULL) != fails) printf("unexpected answer of a handler\n"), exit(1);
    calls++;
}

static void try_handlers(void *tensor, int64_t size, int32_t type, void *sample, int64_t bytes)
{
    uint32_t rows[2 * GW_COLUMNS], counts[GW_BUCKETS];
    float controls[2] = {2, 2}; /* scale, detail */
    int32_t f = FFI_TYPES[type], u = FFI_UINT32, b = FFI_UINT8;
    for (int fails = 0; fails < 2; fails++) { /* the second time a result is too small */
        call_handler(GwMeasure, 2, 2, (int32_t[]){FFI_FLOAT32, f, u, u},
            (int64_t[]){2, size, 2 * GW_COLUMNS, GW_BUCKETS - fails}, (void *[]){controls, tensor, rows, counts}, fails);
        call_handler(GwSample, 2, 1, (int32_t[]){FFI_FLOAT32, f, b}, (int64_t[]){2, size, bytes + 8 - fails},
            (void *[]){controls, tensor, sample}, fails);
        call_handler(GwMoves, 3, 1, (int32_t[]){FFI_FLOAT32, b, f, u}, (int64_t[]){2, bytes + 8, size, 2 * GW_MOVES - fails},
            (void *[]){controls, sample, tensor, rows}, fails);
        call_handler(GwNorms, 2, 1, (int32_t[]){FFI_FLOAT32, f, u}, (int64_t[]){2, size, 2 - fails},
            (void *[]){controls, tensor, rows}, fails);
    }
}

static void try_one(int64_t size, int32_t type, int64_t offset)
{
    int64_t bytes = size * gw_item_bytes(type);
    unsigned char *memory = random_tensor(bytes, offset), *tensor = memory + offset;
    const void *tensors[] = {tensor};
    double *row = malloc((GW_COLUMNS + GW_BUCKETS) * sizeof *row);
    int64_t needed = gw_sample_bytes(1, &size, &type);
    unsigned char *sample = malloc((size_t)needed + 8);
    for (int k = 0; k < 4; k++, calls++)
        gw_measure(1, &size, &type, tensors, SCALES[k], 1, row, row + GW_COLUMNS);
    gw_sample(1, &size, &type, tensors, sample);
    gw_moves(1, &size, &type, sample, tensors, row);
    gw_norms(1, &size, &type, tensors, row);
    calls += 3;
    try_handlers(tensor, size, type, sample, needed);
    if (offset == 0) calls += try_operations(tensor, size, type, needed);
    free(memory), free(row), free(sample);
}

int main(void)
{
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        for (int32_t type = 0; type < 4; type++)
            for (int64_t offset = 0; offset < 4; offset += 1) try_one(SIZES[i], type, offset);
    printf("%lld calls\n", (long long)calls);
    return 0;
}
