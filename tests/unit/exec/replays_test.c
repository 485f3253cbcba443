/* SPDX-License-Identifier: Apache-2.0
 *
 * A replay is the forward once more: the same kernel, made before the first step and for as many
 * samples, as much workspace, the same random numbers, the same bits in (the weights of the version
 * that the forward read among them), the same bits out, and nothing kept over steps is touched.
 * Every call of a run passes by here.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "unit/exec/batches.h"

/* --- what passed by ----------------------------------------------------------------------------*/

enum { MOST_OPERANDS = 16, MOST_FORWARDS = 20000 };

struct watched {
    struct pst_kernel kernel; /* first */
    struct pst_kernel *inner;
    const struct pst_graph *graph;
    uint32_t op, pass, samples;
};

/* Bits of operands; 0: there is none. */
struct operands {
    uint64_t x[MOST_OPERANDS], p[MOST_OPERANDS], y[MOST_OPERANDS];
};

struct forward {
    const struct watched *kernel;
    uint64_t first_sample, seed;
    bool has_workspace;
    struct operands bits;
};

static struct watch {
    pthread_mutex_t lock;
    const struct pst_device_ops *inner;
    struct pst_device_ops ops;
    struct forward *forwards;
    uint32_t n_forwards, n_replays;
    uint32_t n_compiled; /* of all passes */
    char fault[256];     /* the first */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t bits_of(const void *at, uint64_t bytes)
{
    return at == NULL ? 0 : XXH3_64bits(at, bytes) | 1;
}

static uint64_t bytes_of(const struct watched *k, uint32_t tensor)
{
    const struct pst_tensor *t = &k->graph->tensors[tensor];

    return t->elems * pst_dtype_bytes(t->dtype) * (t->batched ? k->samples : 1);
}

static void read_operands(const struct watched *k, const struct pst_call *call, bool results,
                          struct operands *ret_bits)
{
    const struct pst_op *op = &k->graph->ops[k->op];

    for (uint32_t i = 0; i < op->n_in && !results; i++) {
        ret_bits->x[i] = bits_of(call->x[i], bytes_of(k, op->in[i]));
    }
    for (uint32_t i = 0; i < op->n_param && !results; i++) {
        const struct pst_parameter *param =
            op->param[i] == PST_NONE ? NULL : &k->graph->params[op->param[i]];

        ret_bits->p[i] =
            param == NULL ? 0 : bits_of(call->p[i], param->elems * pst_dtype_bytes(param->dtype));
    }
    for (uint32_t i = 0; i < op->n_out && results; i++) {
        ret_bits->y[i] = bits_of(call->y[i], bytes_of(k, op->out[i]));
    }
}

static uint64_t bits_of_state(const struct watched *k, const struct pst_call *call)
{
    const struct pst_op *op = &k->graph->ops[k->op];
    uint64_t bits = 0;

    for (uint32_t i = 0; i < op->n_state; i++) {
        bits = 31 * bits + bits_of(call->state[i], op->state_elems[i] * sizeof(float));
    }
    return bits;
}

/* What a replay leaves out, another pass over the results has no use for. */
static bool differ(const uint64_t *forward, const uint64_t *replay, bool may_lack)
{
    for (uint32_t i = 0; i < MOST_OPERANDS; i++) {
        if (forward[i] != replay[i] && !(may_lack && replay[i] == 0)) {
            return true;
        }
    }
    return false;
}

static const char *fault_of(const struct forward *f, const struct forward *replay)
{
    return f == NULL                                   ? "there was no forward"
           : f->kernel != replay->kernel               ? "it is another kernel"
           : f->has_workspace != replay->has_workspace ? "one has workspace"
           : f->seed != replay->seed                   ? "other random numbers"
           : differ(f->bits.x, replay->bits.x, false)  ? "it reads something else"
           : differ(f->bits.p, replay->bits.p, false)  ? "it reads other weights"
           : differ(f->bits.y, replay->bits.y, true)   ? "it leaves something else"
                                                       : NULL;
}

/* The forward of these samples; under the lock. */
static const struct forward *find(const struct forward *replay)
{
    for (uint32_t i = watch.n_forwards; i-- > 0;) {
        if (watch.forwards[i].kernel->op == replay->kernel->op &&
            watch.forwards[i].first_sample == replay->first_sample) {
            return &watch.forwards[i];
        }
    }
    return NULL;
}

static void book(const struct forward *now, bool replay, bool state_changed)
{
    const char *fault = NULL;

    pthread_mutex_lock(&watch.lock);
    if (!replay) {
        fault = watch.n_forwards < MOST_FORWARDS ? NULL : "too many forwards";
        if (fault == NULL) {
            watch.forwards[watch.n_forwards++] = *now;
        }
    } else {
        watch.n_replays++;
        fault = state_changed ? "it changes what is kept over steps" : fault_of(find(now), now);
    }
    if (fault != NULL && watch.fault[0] == '\0') {
        snprintf(watch.fault, sizeof watch.fault, "%s of %s, samples from %llu: %s",
                 replay ? "replay" : "forward", now->kernel->graph->ops[now->kernel->op].name,
                 (unsigned long long)now->first_sample, fault);
    }
    pthread_mutex_unlock(&watch.lock);
}

/* --- in place of the device's kernels ----------------------------------------------------------*/

static void watched_run(const struct pst_kernel *kernel, const struct pst_call *call)
{
    const struct watched *k = (const struct watched *)kernel;
    struct forward now = {
        k, call->first_sample, call->seed, call->workspace != NULL, {{0}, {0}, {0}}};
    bool forward = k->pass == PST_KERNEL_F && (call->flags & PST_CALL_TRAINING) != 0;
    uint64_t state = 0;

    if (forward) {
        read_operands(k, call, false, &now.bits);
        state = bits_of_state(k, call);
    }
    k->inner->run(k->inner, call);
    if (forward) {
        read_operands(k, call, true, &now.bits);
        book(&now, (call->flags & PST_CALL_REPLAY) != 0, state != bits_of_state(k, call));
    }
}

static void watched_destroy(struct pst_kernel *kernel)
{
    struct watched *k = (struct watched *)kernel;

    k->inner->destroy(k->inner);
    free(k);
}

static pst_status watched_compile(struct pst_device *device, const struct pst_graph *graph,
                                  uint32_t op, uint32_t pass, uint32_t samples,
                                  struct pst_kernel **ret_kernel, struct pst_error *err)
{
    struct watched *k = calloc(1, sizeof *k);
    pst_status st = watch.inner->compile(device, graph, op, pass, samples, &k->inner, err);

    if (st != PST_OK) {
        free(k);
        return st;
    }
    k->kernel = (struct pst_kernel){watched_run, watched_destroy, k->inner->workspace_bytes, NULL};
    k->graph = graph;
    k->op = op;
    k->pass = pass;
    k->samples = samples;
    pthread_mutex_lock(&watch.lock);
    watch.n_compiled++;
    pthread_mutex_unlock(&watch.lock);
    *ret_kernel = &k->kernel;
    return PST_OK;
}

static const struct pst_device_ops *put_before(const struct pst_device_ops *ops)
{
    watch.inner = ops;
    watch.ops = *ops;
    watch.ops.compile = watched_compile;
    return &watch.ops;
}

/* --- runs --------------------------------------------------------------------------------------*/

static void check(const char *model, const char *settings, uint32_t dtype, enum order order)
{
    struct layout layout = {2, {0, 1}, order, true, {0}};
    struct pst_step_result results[STEPS];
    struct batches batches;
    FINISHED_BY(real_destroy) struct real real;
    uint32_t made;

    watch.n_forwards = watch.n_replays = watch.n_compiled = 0;
    watch.fault[0] = '\0';
    real_create(&real, model, settings, dtype, &layout, 4 * SIZE, slots_of(PST_ADAM), 0);
    real_data(&real, CLASSES);
    made = watch.n_compiled;
    assert_true(made > 0);
    make_batches(&real, 0, &batches);
    if (order >= ORDER_2BW) {
        run_batches(&real, PST_ADAM, 3, &batches, results);
    } else {
        for (uint32_t t = 0; t < 3; t++) {
            struct pst_update update = update_of(PST_ADAM, t);

            real_step(&real, &update);
        }
    }
    if (watch.fault[0] != '\0') {
        fail_msg("%s, order %d: %s", model, order, watch.fault);
    }
    assert_int_equal(watch.n_compiled, made); /* nothing is chosen anew in a step */
    print_message("%s, order %d: %u replays of %u forwards\n", model, order, watch.n_replays,
                  watch.n_forwards);
    assert_true(watch.n_replays >= watch.n_forwards / 3);
    free_batches(&batches);
}

TEST(test_replays)
{
    static const char gpt[] = "layers=2 dim=16 heads=2 context=8 vocab=7 dropout=0.2 tied=false";
    static const char resnet[] = "image=8 width=4 stages=2 blocks=1 classes=7";
    static const enum order orders[] = {ORDER_GPIPE, ORDER_1F1B, ORDER_SPLIT, ORDER_2BW,
                                        ORDER_STASHED};

    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        check("gpt", gpt, PST_F32, orders[i]);
        check("resnet", resnet, PST_F32, orders[i]);
    }
    check("gpt", gpt, PST_BF16, ORDER_1F1B);
}

static int begin(void **state)
{
    watch.forwards = malloc(MOST_FORWARDS * sizeof *watch.forwards);
    real_watch = put_before;
    return watch.forwards == NULL ? -1 : 0;
}

static int end(void **state)
{
    free(watch.forwards);
    return 0;
}

TEST_GROUP(begin, end)
