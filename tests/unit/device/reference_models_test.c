/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in GPT and Llama, forward and backward through the reference kernels operator by
 * operator, against losses, logits and all gradients that PyTorch computes for the same weights
 * (recorded by scripts/record_torch.py). Residual connections and the tied head sum gradients of
 * several users.
 */
#include "reference_fixture.h"

#include <math.h>

#include "device/cpu/reference/reference.h"
#include "unit/graph/recorded_model.h"

#define LAYERS 2

struct network {
    struct pst_graph *graph;
    uint32_t dtype, samples;
    void **values, **gradients; /* per tensor, typed; gradients appear on the way back */
    void **weights;             /* per parameter, typed */
    double **dweights;          /* per parameter, summed over its users */
};

/* --- sums over users --------------------------------------------- */

static uint64_t elems_of(const struct network *net, uint32_t tensor)
{
    const struct pst_tensor *t = &net->graph->tensors[tensor];

    return t->elems * (t->batched ? net->samples : 1);
}

/* gradient of the tensor += more; takes `more` over. */
static void add_gradient(struct network *net, uint32_t tensor, void *more)
{
    const uint32_t dtype = net->graph->tensors[tensor].dtype;
    void *sum = net->gradients[tensor];

    if (sum == NULL) {
        net->gradients[tensor] = more;
        return;
    }
    for (uint64_t i = 0; i < elems_of(net, tensor); i++) {
        rig_put(sum, i, dtype, rig_get(sum, i, dtype) + rig_get(more, i, dtype));
    }
    free(more);
}

/* --- one operator ------------------------------------------------ */

static void run_kernel(const struct network *net, uint32_t op, uint32_t pass, struct pst_call *call)
{
    struct pst_kernel *kernel = NULL;
    struct pst_error err = {0};

    assert_ok(pst_reference_kernel(net->graph, op, pass, net->samples, &kernel, &err), &err);
    call->workspace = rig_array(kernel->workspace_bytes / 4, PST_F32);
    call->flags = PST_CALL_TRAINING;
    call->scale = 1.0f / (float)net->samples;
    kernel->run(kernel, call);
    free(call->workspace);
    kernel->destroy(kernel);
}

/* Pointers to an operator's operands. */
struct operands {
    void *x[4], *p[2], *y[3], *dx[4], *add[4], *z[PST_MAX_SCRATCH], *dp[2];
};

static struct pst_call call_of(const struct network *net, const struct pst_op *op,
                               struct operands *o)
{
    struct pst_call call = {.x = o->x, .p = o->p, .y = o->y, .dx = o->dx, .add = o->add, .z = o->z};

    memset(o, 0, sizeof *o);
    for (uint32_t i = 0; i < op->n_in; i++) {
        o->x[i] = net->values[op->in[i]];
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        o->y[i] = net->values[op->out[i]];
    }
    for (uint32_t i = 0; i < op->n_param; i++) {
        o->p[i] = op->param[i] == PST_NONE ? NULL : net->weights[op->param[i]];
    }
    call.dy = net->gradients[op->out[0]];
    call.dp = (float *const *)(void *)o->dp;
    return call;
}

static void run_b(struct network *net, uint32_t index, const struct pst_op_grad *grad,
                  struct operands *o, struct pst_call *call)
{
    const struct pst_op *op = &net->graph->ops[index];

    for (uint32_t i = 0; i < op->n_in; i++) {
        if ((grad->b_dx >> i & 1) == 0) {
            continue;
        }
        if ((grad->b_adds >> i & 1) != 0 && net->gradients[op->in[i]] != NULL) {
            o->add[i] = o->dx[i] = net->gradients[op->in[i]];
        } else {
            o->dx[i] = rig_array(elems_of(net, op->in[i]), net->graph->tensors[op->in[i]].dtype);
        }
    }
    if (grad->has_b) {
        run_kernel(net, index, PST_KERNEL_B, call);
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        if ((grad->b_alias >> i & 1) != 0) {
            const uint64_t n = elems_of(net, op->in[i]);
            const uint32_t dtype = net->graph->tensors[op->in[i]].dtype;

            o->dx[i] = rig_array(n, dtype);
            memcpy(o->dx[i], call->dy, n * pst_dtype_bytes(dtype));
        }
        if (o->dx[i] != NULL && o->add[i] == NULL) {
            add_gradient(net, op->in[i], o->dx[i]);
        }
    }
}

static void run_w(struct network *net, uint32_t index, struct operands *o, struct pst_call *call)
{
    const struct pst_op *op = &net->graph->ops[index];
    const uint32_t dtype = net->dtype == PST_F64 ? PST_F64 : PST_F32;

    for (uint32_t i = 0; i < op->n_param; i++) {
        if (op->param[i] != PST_NONE) {
            o->dp[i] = rig_array(net->graph->params[op->param[i]].elems, dtype);
        }
    }
    run_kernel(net, index, PST_KERNEL_W, call);
    for (uint32_t i = 0; i < op->n_param; i++) {
        for (uint64_t e = 0; o->dp[i] != NULL && e < net->graph->params[op->param[i]].elems; e++) {
            net->dweights[op->param[i]][e] += rig_get(o->dp[i], e, dtype);
        }
        free(o->dp[i]);
    }
}

static void run_backward(struct network *net, uint32_t index)
{
    struct pst_op_grad grad;
    struct operands o;
    struct pst_call call = call_of(net, &net->graph->ops[index], &o);

    pst_op_grad_info(net->graph, index, &grad);
    for (uint32_t i = 0; i < grad.n_z; i++) {
        o.z[i] =
            rig_array(grad.z_elems[i] * (grad.z_batched[i] ? net->samples : 1), grad.z_dtype[i]);
    }
    run_b(net, index, &grad, &o, &call);
    if (grad.has_w) {
        run_w(net, index, &o, &call);
    }
    for (uint32_t i = 0; i < grad.n_z; i++) {
        free(o.z[i]);
    }
}

/* --- the network ------------------------------------------------- */

/* The recorded parameter of that name. */
static const json_t *recorded(const json_t *root, const char *name)
{
    const json_t *params = fixture_get(root, "params");

    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *param = json_array_get(params, i);

        if (strcmp(json_string_value(fixture_get(param, "name")), name) == 0) {
            return param;
        }
    }
    fail_msg("parameter %s is not in the fixture", name);
    return NULL;
}

static void fill(void *array, const json_t *numbers, uint64_t n, uint32_t dtype)
{
    double *values = malloc((n + 1) * sizeof *values);

    assert_non_null(values);
    fixture_numbers(numbers, values, n);
    for (uint64_t i = 0; i < n; i++) {
        rig_put(array, i, dtype, rig_rounded(values[i], PST_F32)); /* nine digits name an f32 */
    }
    free(values);
}

static void init(struct network *net, const char *model, const json_t *root, uint32_t dtype)
{
    struct pst_graph *graph = make_model(model, recorded_settings(root, model), dtype);

    net->graph = graph;
    net->dtype = dtype;
    net->samples = (uint32_t)fixture_integer(root, "samples");
    net->values = calloc(graph->n_tensors, sizeof(void *));
    net->gradients = calloc(graph->n_tensors, sizeof(void *));
    net->weights = calloc(graph->n_params, sizeof(void *));
    net->dweights = calloc(graph->n_params, sizeof(double *));
    assert_true(net->values != NULL && net->gradients != NULL);
    assert_true(net->weights != NULL && net->dweights != NULL);
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        const struct pst_tensor *t = &graph->tensors[i];

        net->values[i] = rig_array(elems_of(net, i), t->dtype);
        if (t->role == PST_ROLE_INPUT) {
            const char *key = t->field == PST_FIELD_X ? "tokens" : "targets";

            fill(net->values[i], fixture_get(root, key), elems_of(net, i), t->dtype);
        }
    }
    assert_int_equal(graph->n_params, json_array_size(fixture_get(root, "params")));
    for (uint32_t i = 0; i < graph->n_params; i++) {
        const struct pst_parameter *p = &graph->params[i];

        net->weights[i] = rig_array(p->elems, p->dtype);
        net->dweights[i] = calloc(p->elems, sizeof(double));
        assert_non_null(net->dweights[i]);
        fill(net->weights[i], fixture_get(recorded(root, p->name), "values"), p->elems, p->dtype);
    }
}

static void finish(struct network *net)
{
    for (uint32_t i = 0; i < net->graph->n_tensors; i++) {
        free(net->values[i]);
        free(net->gradients[i]);
    }
    for (uint32_t i = 0; i < net->graph->n_params; i++) {
        free(net->weights[i]);
        free(net->dweights[i]);
    }
    free(net->values);
    free(net->gradients);
    free(net->weights);
    free(net->dweights);
    pst_graph_destroy(net->graph);
}

static void compare_tensor(const struct network *net, uint32_t tensor, const json_t *expected,
                           const char *what, double bound)
{
    const uint64_t n = elems_of(net, tensor);
    double *values = malloc(n * sizeof *values);

    assert_non_null(values);
    for (uint64_t i = 0; i < n; i++) {
        values[i] = rig_get(net->values[tensor], i, net->graph->tensors[tensor].dtype);
    }
    fixture_compare(what, expected, values, n, bound);
    free(values);
}

static void check(const char *model, const json_t *root, uint32_t dtype, double bound)
{
    struct network net;

    init(&net, model, root, dtype);
    for (uint32_t i = 0; i < net.graph->n_ops; i++) {
        struct operands o;
        struct pst_call call = call_of(&net, &net.graph->ops[i], &o);

        run_kernel(&net, i, PST_KERNEL_F, &call);
    }
    compare_tensor(&net, net.graph->logits, fixture_get(root, "logits"), "logits", bound);
    compare_tensor(&net, net.graph->loss, fixture_get(root, "losses"), "losses", bound);
    for (uint32_t i = net.graph->n_ops; i-- > 0;) {
        run_backward(&net, i);
    }
    for (uint32_t i = 0; i < net.graph->n_params; i++) {
        const struct pst_parameter *p = &net.graph->params[i];

        fixture_compare(p->name, fixture_get(recorded(root, p->name), "gradient"), net.dweights[i],
                        p->elems, bound);
    }
    finish(&net);
}

/* f64: nine digits are recorded, and the scale of the loss is an f32. roundings: what f32 and bf16
   may be off by, in units of theirs. */
static void check_types(const char *model, const json_t *root, double roundings)
{
    check(model, root, PST_F64, 5.1e-9 + 1.0 / 16777216);
    check(model, root, PST_F32, roundings / 16777216);
    check(model, root, PST_BF16, roundings / 256);
}

TEST(test_gpt)
{
    /*
     * The chain from one end of the network to the other and back is 2 * 6 operators for each
     * block, each of which rounds what it hands on; such errors add up like a random walk, of which
     * these are two standard deviations.
     */
    const double steps = 2 * sqrt(2 * 6 * LAYERS);
    json_t *root = fixture_load("gpt");

    assert_int_equal(fixture_integer(root, "layers"), LAYERS);
    check_types("gpt", root, steps);
    json_decref(root);
}

/* Grouped heads of a width of their own, norms of them, biases, scaled positions, a window. Twice
   as far as f32 takes PyTorch itself from the recorded numbers. */
TEST(test_llama)
{
    json_t *root = fixture_load("llama");

    check_types("llama", root, 2 * json_real_value(fixture_get(root, "f32_error")));
    json_decref(root);
}
