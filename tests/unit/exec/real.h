/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models on the cpu device: cuts a graph into stages, orders passes, builds programs and runs
 * a few steps. What comes out is compared between plans.
 */
#ifndef PST_TEST_EXEC_REAL_H
#define PST_TEST_EXEC_REAL_H

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "base/philox.h"
#include "exec/exec.h"
#include "models/builder.h"

#include "unit/exec/orders.h"
#include "unit/graph/model_support.h"
#include "unit/transport/support.h"

/* What is offloaded, in the tests that set it before they make a plan. */
struct offloading {
    uint64_t seed; /* of the actions; 0: as the layout says */
    const struct pst_exec_copy_config *copies;
    uint64_t stall_ns; /* 0: a minute */
};
static struct offloading offloading;

struct real {
    struct pst_graph *graph;
    struct pst_cluster cluster;
    struct pst_cost_model cost;
    const struct pst_device_ops *device_ops;
    struct pst_device *device; /* asked for workspace sizes only */
    struct pst_plan *plan, *eval_plan;
    uint32_t n_ranks;
    struct pst_program *programs[MOST_RANKS], *eval_programs[MOST_RANKS];
    struct pst_exec *exec;
    void *inputs[PST_MAX_INPUTS];
    uint32_t batch;
};

/* Puts something before the device that is used. NULL: nothing. */
static const struct pst_device_ops *(*real_watch)(const struct pst_device_ops *ops);

/* run.kernels, where the device says nothing else. */
static const char *real_kernels = "auto";

/* On the cpu device, whatever device is tested. */
static bool real_on_cpu;

/* The next plan cuts state into pieces, one for each replica: plan->zero. */
static uint32_t real_cuts;

/* Samples of the next graph are tokens of one text (pst_graph_decode). */
static bool real_decodes;

/* Where the next executor goes on. */
static struct {
    const struct pst_exec_source *source; /* NULL: it begins */
    uint64_t step, update;
} real_resumes;

/* Captures (exec.h), and what `auto` goes by; PENSTOCK_TEST_GRAPHS=on: everywhere. */
static uint32_t real_graphs;
static const struct pst_device_times *real_predicted;

static inline uint32_t graphs_of_real(void)
{
    return !real_on_cpu && getenv("PENSTOCK_TEST_GRAPHS") != NULL ? PST_GRAPHS_ON : real_graphs;
}

/* The same tests on another device that computes: the file of its module; NULL: none. */
static inline const char *real_other_device(void)
{
    return real_on_cpu ? NULL : getenv("PENSTOCK_TEST_DEVICE");
}

static inline bool real_on_cuda(void)
{
    return real_other_device() != NULL && strstr(real_other_device(), "device-cuda") != NULL;
}

/* And on another transport, which may be for that device alone. */
static inline const struct pst_transport_ops *real_transport(void)
{
    const char *file = real_on_cpu ? NULL : getenv("PENSTOCK_TEST_TRANSPORT");

    return file != NULL ? load_transport(file) : load_threads();
}

/* PENSTOCK_TEST_EDGES: with a queue for each edge. */
static inline bool real_has_edges(void)
{
    return getenv("PENSTOCK_TEST_EDGES") != NULL;
}

/* Sends and receives of a rank are one queue there, which delayed plans cannot do with. */
static inline bool real_has_one_queue(void)
{
    const char *file = getenv("PENSTOCK_TEST_TRANSPORT");

    return file != NULL && strstr(file, "transport-nccl") != NULL && !real_has_edges();
}

/* Ends the program as one that is skipped where that device is not to be had here. */
static inline void real_need_device(const struct pst_device_ops *ops)
{
    char why[256] = "";

    if (ops->probe != NULL && ops->probe(why, sizeof why) != PST_OK) {
        print_message("skipped: %s\n", why);
        fflush(NULL);
        _exit(77);
    }
}

static inline const struct pst_device_ops *load_device(const char *id)
{
    char path[512];
    void *module;
    pst_device_module_fn *function;

    snprintf(path, sizeof path, PENSTOCK_PLUGIN_DIR "/device-%s.so", id);
    if (real_other_device() != NULL) {
        snprintf(path, sizeof path, "%s", real_other_device());
    }
    module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        fail_msg("%s", dlerror());
        return NULL;
    }
    *(void **)&function = dlsym(module, PST_DEVICE_MODULE_SYMBOL);
    assert_non_null(function);
    if (real_other_device() != NULL) {
        real_need_device(function());
    }
    return function();
}

static inline uint64_t real_workspace(void *context, uint32_t op, uint32_t pass, uint32_t samples)
{
    struct real *real = context;

    return real->device_ops->workspace(real->device, real->graph, op, pass, samples);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) {                                                                    \
            fail_msg("%s\n%s", err.message, err.details);                                          \
        }                                                                                          \
    } while (0)

static inline void lower_delayed(struct real *real, const struct layout *layout)
{
    struct pst_error err = {0};
    uint32_t m = real->plan->stages[0].n_microbatches;
    struct pst_pass *orders[PST_PARTS][MOST_RANKS];
    uint32_t n_passes[PST_PARTS][MOST_RANKS];
    const struct pst_pass *const *rows[PST_PARTS];
    const uint32_t *counts[PST_PARTS];

    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t r = 0; r < real->n_ranks; r++) {
            uint32_t s = layout->replicas[0] > 0 ? stage_on(layout, r) : r;

            orders[part][r] = calloc(2 * (size_t)m + 1, sizeof **orders[part]);
            n_passes[part][r] = delayed_order(layout->n_stages, s, m, part, orders[part][r]);
        }
        rows[part] = (const struct pst_pass *const *)orders[part];
        counts[part] = n_passes[part];
    }
    for (uint32_t s = 0; s < layout->n_stages && layout->order == ORDER_STASHED; s++) {
        real->plan->version_rule = PST_VERSION_STASHED;
        real->plan->stages[s].weight_versions = layout->n_stages - s;
    }
    MUST(pst_plan_lower_parts(real->plan, real->graph, &real->cost, rows, counts, &err));
    for (uint32_t part = 0; part < PST_PARTS; part++) {
        for (uint32_t r = 0; r < real->n_ranks; r++) {
            free(orders[part][r]);
        }
    }
}

static inline uint32_t order_of(const struct real *real, const struct layout *layout, uint32_t r,
                                struct pst_pass *order)
{
    bool plain = layout->order == ORDER_GPIPE || layout->order == ORDER_REVERSE;
    bool replicas = layout->replicas[0] > 0;
    uint32_t s = replicas ? stage_on(layout, r) : r;
    uint32_t m = real->plan->stages[replicas ? s : 0].n_microbatches;

    if (replicas) {
        return plain ? plain_order(layout, s, m, order) : steady_order(layout, s, m, order);
    }
    return plain ? chunked_order(layout, r, m, order) : steady_order(layout, r, m, order);
}

static inline void lower_step(struct real *real, const struct layout *layout)
{
    struct pst_error err = {0};
    struct pst_pass *orders[MOST_RANKS];
    uint32_t n_passes[MOST_RANKS];

    for (uint32_t r = 0; r < real->n_ranks; r++) {
        orders[r] = calloc(3 * (size_t)real->batch * layout->n_stages, sizeof **orders);
        n_passes[r] = order_of(real, layout, r, orders[r]);
    }
    MUST(pst_plan_lower(real->plan, real->graph, &real->cost,
                        (const struct pst_pass *const *)orders, n_passes, true, &err));
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        free(orders[r]);
    }
}

/* Equal numbers of operators per stage, as far as that goes; of the whole model's where degrees
   differ. */
static inline uint32_t real_cut(const struct pst_graph *graph, uint32_t s, uint32_t n_stages)
{
    uint32_t v = 0;

    if (graph->degree_of == NULL) {
        return graph->n_ops * s / n_stages;
    }
    while (v < graph->n_ops && graph->op_of[v] < graph->whole->n_ops * s / n_stages) {
        v++;
    }
    return v;
}

static inline void real_plan(struct real *real, const struct layout *layout, uint32_t slots,
                             bool barrier)
{
    struct pst_error err = {0};
    uint32_t n = real->graph->n_ops, *nodes = calloc(n, sizeof *nodes), ranks[MOST_RANKS];

    for (uint32_t s = 0; s < layout->n_stages; s++) {
        uint32_t end = first_rank(layout, s) + width_of(layout, s);

        real->n_ranks = end > real->n_ranks ? end : real->n_ranks;
    }
    assert_true(real->n_ranks <= MOST_RANKS);
    pst_plan_create(real->graph, real->batch, real->n_ranks, &real->plan);
    real->plan->zero = real_cuts;
    real->plan->prefetch = real_cuts >= 2;
    for (uint32_t v = 0; v < n; v++) {
        nodes[v] = v;
    }
    for (uint32_t s = 0; s < layout->n_stages; s++) {
        uint32_t begin = real_cut(real->graph, s, layout->n_stages);
        uint32_t end = real_cut(real->graph, s + 1, layout->n_stages);

        for (uint32_t r = 0; r < width_of(layout, s); r++) {
            ranks[r] = first_rank(layout, s) + r;
        }
        pst_plan_add_stage(real->plan, nodes + begin, end - begin, ranks, width_of(layout, s),
                           SIZE * width_of(layout, s), 1);
        if (layout->recompute) {
            memset((uint8_t *)(uintptr_t)real->plan->stages[s].actions, PST_ACTION_RECOMPUTE,
                   end - begin);
        }
        for (uint32_t i = 0; offloading.seed != 0 && i < end - begin; i++) {
            uint32_t letter = pst_philox(offloading.seed, begin + i, 0).v[0] % 4;

            ((uint8_t *)(uintptr_t)real->plan->stages[s].actions)[i] =
                letter == 0   ? PST_ACTION_RECOMPUTE
                : letter == 1 ? PST_ACTION_KEEP
                              : PST_ACTION_OFFLOAD;
        }
    }
    real->plan->optimizer_slots = slots;
    real->plan->barrier = barrier;
    MUST(pst_plan_connect(real->plan, real->graph, &err));
    if (layout->order >= ORDER_2BW) {
        lower_delayed(real, layout);
    } else {
        lower_step(real, layout);
    }
    MUST(pst_plan_forward_twin(real->plan, real->graph, &real->cost, real->batch, 0,
                               &real->eval_plan, &err));
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        MUST(pst_program_create(real->plan, real->graph, &real->cost, r, &real->programs[r], &err));
        MUST(pst_program_create(real->eval_plan, real->graph, &real->cost, r,
                                &real->eval_programs[r], &err));
    }
    free(nodes);
}

/* Numbers of every kind of input tensor; whole numbers stay below `classes`. */
static inline void real_data(struct real *real, uint32_t classes)
{
    for (uint32_t i = 0; i < real->graph->n_tensors; i++) {
        const struct pst_tensor *tensor = &real->graph->tensors[i];
        uint64_t n = tensor->elems * real->batch;

        if (tensor->role != PST_ROLE_INPUT || real->inputs[i] != NULL) {
            continue;
        }
        real->inputs[i] = malloc(n * pst_dtype_bytes(tensor->dtype));
        for (uint64_t k = 0; k < n; k++) {
            struct pst_philox word = pst_philox(77, tensor->field, k);
            float value = 2 * pst_uniform(word.v[0]) - 1;

            if (tensor->dtype == PST_I32) {
                ((int32_t *)real->inputs[i])[k] =
                    (int32_t)(word.v[1] % (tensor->field == PST_FIELD_SEGMENT ? 2 : classes));
            } else if (tensor->dtype == PST_F32) {
                ((float *)real->inputs[i])[k] = value;
            } else {
                uint32_t bits;

                memcpy(&bits, &value, sizeof bits);
                ((uint16_t *)real->inputs[i])[k] = (uint16_t)(bits >> 16);
            }
        }
    }
}

static const struct pst_cluster real_cluster = {.devices = MOST_RANKS,
                                                .flops = 1e9,
                                                .bf16_flops = 1e9,
                                                .memory_bandwidth = 1000000000,
                                                .link_bandwidth = 1000000000,
                                                .link_latency = 1000,
                                                .host_bandwidth = 1000000000};

/* skip: passes over steps that are not finite. */
static inline void real_create_with(struct real *real, const char *model, const char *settings,
                                    uint32_t dtype, const struct layout *layout, uint32_t batch,
                                    uint32_t slots, double clip, bool skip)
{
    struct pst_device_config device_config = {
        .threads = 1, .kernels = dtype == PST_BF16 && !real_on_cuda() ? "reference" : real_kernels};
    struct pst_exec_config config;
    struct pst_error err = {0};

    memset(real, 0, sizeof *real);
    real->cluster = real_cluster;
    real->graph = make_model(model, settings, dtype);
    assert_true(!real_decodes || pst_graph_decode(real->graph));
    real->device_ops = load_device("cpu");
    if (real_watch != NULL) {
        real->device_ops = real_watch(real->device_ops);
    }
    real->batch = batch;
    MUST(real->device_ops->open(&device_config, &real->device, &err));
    real->cost = (struct pst_cost_model){.graph = real->graph,
                                         .cluster = &real->cluster,
                                         .workspace = real_workspace,
                                         .workspace_context = real};
    real_plan(real, layout, slots, layout->order < ORDER_2BW || clip > 0 || skip);
    config = (struct pst_exec_config){
        .graph = real->graph,
        .plan = real->plan,
        .programs = (const struct pst_program *const *)real->programs,
        .eval_plan = real->eval_plan,
        .eval_programs = (const struct pst_program *const *)real->eval_programs,
        .device = real->device_ops,
        .device_config = device_config,
        .transport = real_transport(),
        .edges = real_has_edges(),
        .stall_ns = offloading.stall_ns > 0 ? offloading.stall_ns : 60000000000u,
        .seed = 3,
        .source = real_resumes.source,
        .first_step = real_resumes.step,
        .first_update = real_resumes.update,
        .clip = clip,
        .skip_non_finite = skip,
        .graphs = graphs_of_real(),
        .predicted = real_predicted};
    if (offloading.copies != NULL) {
        config.copies = *offloading.copies;
        real->cluster.link_directions = config.copies.shared_link ? 2 : 1;
    }
    MUST(pst_exec_create(&config, &real->exec, &err));
}

static inline void real_create(struct real *real, const char *model, const char *settings,
                               uint32_t dtype, const struct layout *layout, uint32_t batch,
                               uint32_t slots, double clip)
{
    real_create_with(real, model, settings, dtype, layout, batch, slots, clip, false);
}

static inline struct pst_step_result real_step(struct real *real, const struct pst_update *update)
{
    struct pst_batch batch = {.first_sample = (update->step - 1) * real->batch};
    struct pst_step_result result = {0};
    struct pst_error err = {0};

    memcpy(batch.inputs, real->inputs, sizeof real->inputs);
    MUST(pst_exec_step(real->exec, &batch, update, &result, &err));
    return result;
}

static inline double real_eval(struct real *real)
{
    struct pst_batch batch = {.first_sample = 0};
    struct pst_error err = {0};
    double loss = -1;

    memcpy(batch.inputs, real->inputs, sizeof real->inputs);
    MUST(pst_exec_eval(real->exec, &batch, &loss, NULL, 0, &err));
    return loss;
}

/* All parameters one behind the other; free() it. */
static inline float *real_parameters(struct real *real, uint64_t *ret_n)
{
    float *values = malloc(count_parameters(real->graph) * sizeof *values), *at = values;

    for (uint32_t i = 0; i < real->graph->n_params; i++) {
        assert_int_equal(pst_exec_get_parameter(real->exec, i, at), PST_OK);
        at += real->graph->params[i].elems;
    }
    *ret_n = (uint64_t)(at - values);
    return values;
}

/* The arenas were used to the last byte that training or evaluation has there, and no further. */
static inline void real_check_peaks(const struct real *real)
{
    uint64_t peaks[MOST_RANKS];

    assert_int_equal(pst_exec_measured_peaks(real->exec, peaks, NULL), PST_OK);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        uint64_t train = real->programs[r]->arena_bytes, eval = real->eval_programs[r]->arena_bytes;

        assert_int_equal(peaks[r], train > eval ? train : eval);
    }
}

static inline struct pst_update real_adamw(uint32_t step)
{
    return (struct pst_update){.optimizer = PST_ADAMW,
                               .lr = 0.01f,
                               .beta1 = 0.9f,
                               .beta2 = 0.99f,
                               .eps = 1e-8f,
                               .weight_decay = 0.1f,
                               .step = step};
}

static inline void real_destroy(struct real *real)
{
    pst_exec_destroy(real->exec);
    for (uint32_t r = 0; r < real->n_ranks; r++) {
        pst_program_destroy(real->programs[r]);
        pst_program_destroy(real->eval_programs[r]);
    }
    pst_plan_destroy(real->plan);
    pst_plan_destroy(real->eval_plan);
    real->device_ops->close(real->device);
    for (uint32_t i = 0; i < PST_MAX_INPUTS; i++) {
        free(real->inputs[i]);
    }
    pst_graph_destroy(real->graph);
}

/* --- a short training --------------------------------------------------------------------------*/

enum { REAL_STEPS = 3, REAL_CLASSES = 7 };

struct real_run {
    double losses[REAL_STEPS], norms[REAL_STEPS], eval;
    float *parameters;
    uint64_t n;
};

/* Of four micro-batches a step, clipped, by AdamW. */
static inline struct real_run real_train(const char *model, const char *settings, uint32_t dtype,
                                         const struct layout *layout)
{
    struct real_run run;
    FINISHED_BY(real_destroy) struct real real;

    real_create(&real, model, settings, dtype, layout, 4 * SIZE, 2, 0.5);
    real_data(&real, REAL_CLASSES);
    for (uint32_t i = 0; i < REAL_STEPS; i++) {
        struct pst_update update = real_adamw(i + 1);
        struct pst_step_result result = real_step(&real, &update);

        run.losses[i] = result.loss;
        run.norms[i] = result.grad_norm;
        assert_true(isfinite(result.loss) && result.grad_norm > 0);
    }
    run.eval = real_eval(&real);
    run.parameters = real_parameters(&real, &run.n);
    real_check_peaks(&real);
    return run;
}

/* The same bits; frees the parameters of `other`. what: of which plan these are. */
static inline void real_same(const struct real_run *run, struct real_run *other, const char *model,
                             uint32_t what)
{
    for (uint32_t i = 0; i < REAL_STEPS; i++) {
        if (memcmp(&run->losses[i], &other->losses[i], sizeof(double)) != 0 ||
            memcmp(&run->norms[i], &other->norms[i], sizeof(double)) != 0) {
            fail_msg("%s, layout %u, step %u: loss %a, norm %a, not %a, %a", model, what, i + 1,
                     other->losses[i], other->norms[i], run->losses[i], run->norms[i]);
        }
    }
    assert_true(isfinite(run->eval) && run->eval == other->eval);
    assert_memory_equal(run->parameters, other->parameters, run->n * sizeof(float));
    free(other->parameters);
}

#endif
