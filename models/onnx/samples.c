/* SPDX-License-Identifier: Apache-2.0
 *
 * Where samples are in the values of a model. Shapes and known numbers are inferred at several
 * batches: the axis that grows has the samples, and a number that changes depends on how many there
 * are. A graph computes each sample alone, so what would not is refused by name here.
 */
#include "onnx.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MANY   97           /* samples: beyond what files compare the size of a batch with */
#define FEW    3            /* instead of them where numbers would take more than PROBED */
#define PROBED (1ull << 26) /* bytes */

/* A value at a batch of one. */
struct alone {
    uint32_t rank;
    uint64_t dims[ONNX_RANK];
    bool known;
    uint64_t digest; /* of its numbers */
};

struct samples {
    struct onnx_model *model;
    struct alone *alone; /* what follows, too: by value */
    uint8_t *axis;       /* ONNX_RANK: none */
    uint64_t *front;     /* rows before the samples in that axis: more than 1 where "view" has
                            joined one before them with theirs */
    bool *counts;        /* its numbers depend on how many samples there are, or which one it is */
    bool *used;          /* the result depends on it */
};

/* --- numbers ---------------------------------------------------------------------------------- */

/* The hash of one sample's part of the numbers. It does not
   change if equal numbers are kept as one. */
static uint64_t digest(const struct onnx_data *data, uint64_t outer, uint64_t inner, uint64_t n,
                       uint64_t sample)
{
    const int64_t first = data->i[data->uniform ? 0 : sample * inner];
    uint64_t h = PST_FNV1A;
    bool same = true;

    for (uint64_t o = 0; o < outer && !data->uniform; o++) {
        const int64_t *part = data->i + (o * n + sample) * inner;

        for (uint64_t i = 0; i < inner; i++) {
            same = same && part[i] == first;
            h = pst_fnv1a(h, (uint64_t)part[i]);
        }
    }
    return same ? pst_fnv1a(PST_FNV1A, (uint64_t)first) : h;
}

/* Elements before the samples, and those of one sample after each of them. */
static void split_elems(const struct samples *s, uint32_t v, uint64_t *ret_outer,
                        uint64_t *ret_inner)
{
    const struct alone *alone = &s->alone[v];
    uint64_t elems = 1;

    *ret_outer = s->front[v];
    for (uint32_t i = 0; i < alone->rank; i++) {
        *ret_outer *= i < s->axis[v] && s->axis[v] != ONNX_RANK ? alone->dims[i] : 1;
        elems *= alone->dims[i];
    }
    *ret_inner = *ret_outer == 0 ? 0 : elems / *ret_outer;
}

static bool same_for_all(const struct samples *s, uint32_t v)
{
    const struct onnx_data *data = s->model->values[v].data;
    const uint64_t n = s->axis[v] == ONNX_RANK ? 1 : s->model->batch;
    uint64_t outer, inner;
    bool same = data != NULL && (s->front[v] != 0 || data->uniform);

    split_elems(s, v, &outer, &inner);
    for (uint64_t i = 0; i < n && same && inner > 0; i++) {
        same = digest(data, outer, inner, n, i) == s->alone[v].digest;
    }
    return same;
}

/* --- axes ------------------------------------------------------------------------------------- */

static pst_status find_axis(struct samples *s, uint32_t v, struct pst_error *err)
{
    const struct onnx_model *model = s->model;
    const struct onnx_value *value = &model->values[v];
    const struct alone *alone = &s->alone[v];
    uint32_t axis = ONNX_RANK;
    bool ok = value->rank == alone->rank;

    for (uint32_t i = 0; i < value->rank && ok; i++) {
        if (value->dims[i] != alone->dims[i]) {
            ok = value->dims[i] == model->batch * alone->dims[i] && axis == ONNX_RANK;
            axis = i;
        }
    }
    if (!ok) {
        return ONNX_BAD("input.unsupported",
                        "\"%s\": how its shape grows with the batch is not read: no axis alone "
                        "grows as the batch does",
                        value->name);
    }
    s->axis[v] = (uint8_t)axis;
    return PST_OK;
}

static bool is_view(const struct onnx_node *node)
{
    return node->op == ONNX_Reshape || node->op == ONNX_Flatten || node->op == ONNX_Squeeze ||
           node->op == ONNX_Unsqueeze;
}

/* Where a view leaves the samples; 0: it cuts them up, or those of x are cut up already. */
static uint64_t front_of_view(const struct samples *s, uint32_t x, uint32_t y)
{
    uint64_t before, after, inner;

    if (s->front[x] == 0) {
        return 0;
    }
    s->front[y] = 1;
    split_elems(s, x, &before, &inner);
    split_elems(s, y, &after, &inner);
    if (after == 0 || before % after != 0 || s->axis[y] == ONNX_RANK) {
        return s->axis[y] == ONNX_RANK || after == 0;
    }
    return s->alone[y].dims[s->axis[y]] % (before / after) == 0 ? before / after : 0;
}

/* All but views leave it as it is. */
static void find_fronts(struct samples *s)
{
    for (uint32_t i = 0; i < s->model->n_nodes; i++) {
        const struct onnx_node *node = &s->model->nodes[i];
        uint64_t front = 1;

        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != PST_NONE && s->axis[node->in[k]] != ONNX_RANK) {
                front = s->front[node->in[k]] > front ? s->front[node->in[k]] : front;
            }
        }
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] != PST_NONE) {
                s->front[node->out[k]] =
                    is_view(node) ? front_of_view(s, node->in[0], node->out[k]) : front;
            }
        }
    }
}

/* --- what each node does ---------------------------------------------------------------------- */

/* An input that only says which shape the result has, which is looked at itself. */
static bool is_shape(const struct samples *s, const struct onnx_node *node, uint32_t i)
{
    switch (node->op) {
    case ONNX_Reshape:
    case ONNX_Expand:
    case ONNX_Tile:
    case ONNX_CastLike:
        return i == 1;
    case ONNX_Resize:
        return i == 3;
    case ONNX_Slice: /* of all that there is */
        return i > 0 && onnx_slice_is_whole(s->model, node) &&
               onnx_elems(onnx_in(s->model, node, 0)) == onnx_elems(onnx_out(s->model, node, 0));
    default:
        return false;
    }
}

static pst_status check_inputs(const struct samples *s, const struct onnx_node *node, uint32_t y,
                               struct pst_error *err)
{
    const struct onnx_model *model = s->model;
    char name[192];

    for (uint32_t i = 0; i < node->n_in; i++) {
        const uint32_t x = node->in[i];

        if (x == PST_NONE || is_shape(s, node, i)) {
            continue;
        }
        if (s->counts[x]) {
            return ONNX_BAD("input.unsupported",
                            "%s: it computes with \"%s\", which depends on the number of samples "
                            "in the batch or on a sample's place in it; samples are computed one "
                            "by one, whatever the batch; use a constant, or leave that to the loss",
                            onnx_node_name(model, node, name), model->values[x].name);
        }
        if (s->axis[x] != ONNX_RANK && s->axis[y] != ONNX_RANK &&
            (s->front[y] == 0 || (!is_view(node) && s->front[x] != s->front[y]))) {
            return ONNX_BAD("input.unsupported",
                            "%s: its result has numbers of several samples where one sample's "
                            "should be; transpose before a reshape moves the axis of the batch",
                            onnx_node_name(model, node, name));
        }
    }
    return PST_OK;
}

/* By PyTorch's program: the node is the detach, or it reads one that an optimizer has left out. */
static bool is_detached(struct onnx_model *model, const struct onnx_node *node)
{
    static const char word[] = "%detach";
    const struct onnx_value *x = onnx_in(model, node, 0);
    const char *text = x == NULL || x->input != NULL || !onnx_is_real(x->type)
                           ? NULL
                           : onnx_program_text(model, node);
    const char *at = text == NULL ? NULL : strstr(text, "(args = ");

    if (at != NULL && node->op == ONNX_Identity) {
        return strstr(text, "torch.ops.aten.detach") != NULL;
    }
    while (at != NULL && (at = strstr(at, word)) != NULL) {
        const size_t n = strlen(word) + strspn(at + strlen(word), "_0123456789");
        const char *name = pst_arena_printf(&model->arena, "%.*s", (int)n - 1, at + 1);

        if (pst_names_find(&model->names, name) == PST_NONE) {
            return true;
        }
        at += n;
    }
    return false;
}

static pst_status check_places(struct onnx_model *model, struct pst_error *err)
{
    char name[192];

    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const struct onnx_node *node = &model->nodes[i];

        if (node->op == ONNX_Gather && onnx_joins_negative_places(model, node)) {
            return ONNX_BAD("input.unsupported",
                            "%s: from negative indices of several axes at once PyTorch's older "
                            "exporter computes other places than PyTorch; count the indices from "
                            "the beginning",
                            onnx_node_name(model, node, name));
        }
    }
    return PST_OK;
}

static pst_status check_node(const struct samples *s, const struct onnx_node *node, uint32_t result,
                             struct pst_error *err)
{
    const struct onnx_model *model = s->model;
    pst_status status = PST_OK;
    char name[192];

    for (uint32_t i = 0; i < node->n_out && status == PST_OK; i++) {
        const struct onnx_value *y = onnx_out(model, node, i);

        if (y == NULL || y->type == 0 || !s->used[node->out[i]] || (y->fixed && !y->learned)) {
            continue;
        }
        if (y->type == ONNX_FLOAT16 || y->type == ONNX_BFLOAT16) {
            return ONNX_BAD("input.unsupported",
                            "%s: its result has 16 bits, and would be computed in 32; export the "
                            "module in float32 (model.float())",
                            onnx_node_name(model, node, name));
        }
        status = check_inputs(s, node, node->out[i], err);
        if (status == PST_OK && is_detached(s->model, node)) {
            return ONNX_BAD("input.unsupported",
                            "%s: no gradient passes it in PyTorch's program (detach); that is not "
                            "supported",
                            onnx_node_name(model, node, name));
        }
        if (status == PST_OK && !y->fixed && s->axis[node->out[i]] == ONNX_RANK &&
            node->out[i] != result) {
            return ONNX_BAD("input.unsupported",
                            "%s: it works along the axis of the batch: what one sample gives would "
                            "depend on the others",
                            onnx_node_name(model, node, name));
        }
    }
    return status;
}

static void find_used(struct samples *s, uint32_t result)
{
    s->used[result] = true;
    for (uint32_t i = s->model->n_nodes; i-- > 0;) {
        const struct onnx_node *node = &s->model->nodes[i];
        bool any = false;

        for (uint32_t k = 0; k < node->n_out; k++) {
            any = any || (node->out[k] != PST_NONE && s->used[node->out[k]]);
        }
        for (uint32_t k = 0; k < node->n_in && any; k++) {
            if (node->in[k] != PST_NONE) {
                s->used[node->in[k]] = true;
            }
        }
    }
}

/* --- all -------------------------------------------------------------------------------------- */

static void keep_alone(struct samples *s)
{
    for (uint32_t i = 0; i < s->model->n_values; i++) {
        const struct onnx_value *value = &s->model->values[i];
        struct alone *alone = &s->alone[i];

        alone->rank = value->rank;
        memcpy(alone->dims, value->dims, sizeof alone->dims);
        alone->known = value->fixed && !value->learned && value->data != NULL;
        if (alone->known && onnx_elems(value) > 0) {
            alone->digest = digest(value->data, 1, onnx_elems(value), 1, 0);
        }
    }
}

/* Axes, which numbers change, and what that does to the result, at one more batch. */
static pst_status probe(struct samples *s, uint64_t batch, uint32_t result, struct pst_error *err)
{
    struct onnx_model *model = s->model;
    pst_status status = onnx_infer(model, batch, err);

    for (uint32_t i = 0; i < model->n_values && status == PST_OK; i++) {
        status = find_axis(s, i, err);
    }
    if (status != PST_OK) {
        return status;
    }
    find_fronts(s);
    for (uint32_t i = 0; i < model->n_values; i++) {
        s->counts[i] = s->counts[i] || (s->alone[i].known && !same_for_all(s, i));
    }
    for (uint32_t i = 0; i < model->n_nodes && status == PST_OK; i++) {
        status = check_node(s, &model->nodes[i], result, err);
    }
    if (status == PST_OK && s->front[result] != 1) {
        return ONNX_BAD("input.unsupported",
                        "output \"%s\" has the samples inside of its first axis, and not along it",
                        model->values[result].name);
    }
    return status;
}

pst_status onnx_find_samples(struct onnx_model *model, uint32_t result, uint8_t *ret_axes,
                             struct pst_error *err)
{
    struct pst_arena *arena = &model->arena;
    struct samples s = {.model = model,
                        .alone = pst_arena_array(arena, model->n_values, sizeof *s.alone),
                        .axis = ret_axes,
                        .front = pst_arena_array(arena, model->n_values, sizeof *s.front),
                        .counts = pst_arena_array(arena, model->n_values, sizeof *s.counts),
                        .used = pst_arena_array(arena, model->n_values, sizeof *s.used)};
    pst_status status = onnx_infer(model, 1, err);

    for (uint32_t i = 0; i < model->n_values; i++) {
        s.front[i] = 1;
    }
    if (status != PST_OK) {
        return status;
    }
    keep_alone(&s);
    find_used(&s, result);
    status = check_places(model, err);
    PST_TRY(status, probe(&s, 2, result, err));
    if (status != PST_OK) {
        return status;
    }
    model->most_held = PROBED;
    status = probe(&s, MANY, result, err);
    if (status != PST_OK && model->full) {
        status = probe(&s, FEW, result, err);
    }
    model->most_held = 0;
    return status == PST_OK || model->full ? onnx_infer(model, 1, err) : status;
}
