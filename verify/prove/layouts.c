/* SPDX-License-Identifier: Apache-2.0
 *
 * SPLIT1 to SPLIT4 on tensor parallelism: the graph of a part against the whole model. Each of its
 * tensors has the values of a tensor of the whole in some layout (graph/split.h), and an operator
 * is judged by the layouts of what it reads: the table below says which go together, which one
 * comes of it and, where an input needs a gradient, which one the gradient has. So values and
 * gradients are those of the whole model if they are so operator by operator. The first fault is
 * told.
 */
#include "prove/layouts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"

void pst_split_fault(struct pst_split_walk *w, const char *rule, const char *format, ...)
{
    char text[sizeof((struct pst_violation *)NULL)->text];
    va_list args;
    if (w->wrong) {
        return;
    }
    w->wrong = true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_check_add(w->check, rule, PST_NONE, PST_NONE, "operator %s: %s",
                  w->op != NULL ? w->op->name : "of the model", text);
}

/* --- shapes ------------------------------------------------------------------------------------*/

uint64_t pst_split_columns(const struct pst_split_place *place)
{
    uint64_t columns = 0;
    for (uint32_t i = 0; i < place->n_sections; i++) {
        columns += place->sections[i];
    }
    return columns;
}

/* Dims next to an exchange: t tokens, and an axis of some sections. */
static uint32_t exchanged_dims(const struct pst_split_walk *w, const struct pst_split_place *place,
                               uint64_t *dims)
{
    const struct pst_tensor *whole = &w->whole->tensors[place->of];
    const uint64_t n = w->parts, t = whole->dims[0] / n, m = place->n_sections;
    const uint64_t all = pst_split_columns(place), own = all / n, c = own / m;
    const uint64_t shapes[][4] = {{t, all},     {t, m, n, c}, {n, t, m, c}, {n * t, own},
                                  {n * t, own}, {n, t, own},  {t, n, own}};
    static const uint32_t ranks[] = {2, 4, 4, 2, 2, 3, 3};
    const uint32_t row = place->layout - PST_LAYOUT_PICKED;
    memcpy(dims, shapes[row], sizeof shapes[row]);
    return ranks[row];
}

/* Axes of a tensor of the whole in a layout. Returns how many. */
static uint32_t local_dims(const struct pst_split_walk *w, const struct pst_split_place *place,
                           uint64_t dims[PST_MAX_RANK + 1])
{
    const struct pst_tensor *whole = &w->whole->tensors[place->of];
    const uint32_t rank = whole->rank, layout = place->layout;
    uint64_t own[PST_MAX_RANK];
    if (layout == PST_LAYOUT_NUMBERS || layout == PST_LAYOUT_ALL_NUMBERS) {
        dims[0] = whole->elems / whole->dims[rank - 1];
        dims[0] *= layout == PST_LAYOUT_ALL_NUMBERS ? w->parts : 1;
        dims[1] = PST_CE_NUMBERS;
        return 2;
    }
    memcpy(own, whole->dims, sizeof own);
    if (layout >= PST_LAYOUT_PICKED && layout <= PST_LAYOUT_TURNED) {
        return exchanged_dims(w, place, dims);
    }
    if (layout >= PST_LAYOUT_SPLIT && rank > 0) {
        own[rank - 1] = (own[rank - 1] + place->padding) / w->parts;
    }
    if (layout == PST_LAYOUT_STACKED) {
        own[0] *= w->parts;
    }
    if (layout == PST_LAYOUT_TOKENS) {
        own[0] /= w->parts;
    }
    if (layout == PST_LAYOUT_BIAS) {
        const struct pst_op *maker = &w->whole->ops[whole->producer];
        const struct pst_parameter *bias = &w->whole->params[maker->param[1]];
        memcpy(dims, bias->dims, bias->rank * sizeof *dims);
        return bias->rank;
    }
    if (layout == PST_LAYOUT_APART || layout == PST_LAYOUT_ORDERED) {
        uint32_t at = layout == PST_LAYOUT_APART ? 0 : rank - 1;
        memcpy(dims, own, at * sizeof *own);
        dims[at] = w->parts;
        memcpy(&dims[at + 1], &own[at], (rank - at) * sizeof *own);
        return rank + 1;
    }
    memcpy(dims, own, rank * sizeof *own);
    return rank;
}

static bool has_dims(const struct pst_tensor *tensor, uint32_t rank, const uint64_t *dims)
{
    uint64_t elems = 1;
    for (uint32_t a = 0; tensor->rank == rank && a < rank; a++) {
        elems *= dims[a];
        if (tensor->dims[a] != dims[a]) {
            return false;
        }
    }
    return tensor->rank == rank && tensor->elems == elems;
}

void pst_split_place(struct pst_split_walk *w, uint32_t tensor, struct pst_split_place place)
{
    const struct pst_tensor *local = &w->graph->tensors[tensor];
    const struct pst_tensor *whole = &w->whole->tensors[place.of];
    uint64_t dims[PST_MAX_RANK + 1];
    const bool bias = place.layout == PST_LAYOUT_BIAS;
    const bool numbers =
        place.layout == PST_LAYOUT_NUMBERS || place.layout == PST_LAYOUT_ALL_NUMBERS;
    const uint32_t dtype = numbers ? w->whole->tensors[w->whole->loss].dtype : whole->dtype;
    place.degree = w->op != NULL ? w->parts : 0;
    w->places[tensor] = place;
    if (!has_dims(local, local_dims(w, &place, dims), dims) || local->dtype != dtype ||
        (!bias && local->batched != whole->batched) ||
        (!bias && local->needs_grad != (numbers ? false : whole->needs_grad))) {
        pst_split_fault(w, "SPLIT2", "its result is not tensor %s divided as its layout says",
                        whole->name);
    }
}

/* A result that only the operator itself reads is divided along its last axis; sums of attention by
   heads along the first, and what there is of each row of tokens. */
static void place_aux(struct pst_split_walk *w, uint32_t k, uint32_t layout)
{
    const bool divided = layout != PST_LAYOUT_WHOLE;
    const struct pst_tensor *local = &w->graph->tensors[w->op->out[k]];
    const struct pst_tensor *whole = &w->whole->tensors[w->of->out[k]];
    uint32_t axis =
        w->of->kind == PST_OP_ATTENTION || layout == PST_LAYOUT_TOKENS ? 0 : whole->rank - 1;
    uint64_t dims[PST_MAX_RANK];
    memcpy(dims, whole->dims, sizeof dims);
    if (divided) {
        dims[axis] /= w->parts;
    }
    w->places[w->op->out[k]] =
        (struct pst_split_place){.of = w->of->out[k],
                                 .layout = divided ? PST_LAYOUT_OWN : PST_LAYOUT_WHOLE,
                                 .degree = w->parts};
    if (!has_dims(local, whole->rank, dims) || local->dtype != whole->dtype ||
        local->role != whole->role || local->batched != whole->batched ||
        local->needs_grad != whole->needs_grad) {
        pst_split_fault(w, "SPLIT2", "its result %u is not that of the whole model, divided", k);
    }
}

/* --- parameters --------------------------------------------------------------------------------*/

/* The parameter of the whole with the same name; NULL: none. */
static const struct pst_parameter *whole_param(const struct pst_split_walk *w, uint32_t p)
{
    uint32_t at = pst_names_find(&w->whole->param_names, w->graph->params[p].name);
    return at != PST_NONE ? &w->whole->params[at] : NULL;
}

/* All sections of the axis, each divided evenly, and nothing else but the padding that the last
   parts have in place of elements: then the boxes of the parts cover every element once. */
static bool covers_once(const struct pst_split_walk *w, const struct pst_parameter *local,
                        const struct pst_parameter *whole)
{
    const struct pst_box *box = &local->box;
    uint64_t dims[PST_MAX_RANK], sum = 0, elems = 1;
    memcpy(dims, whole->dims, sizeof dims);
    if (pst_is_split(local)) {
        if (box->parts != w->parts || box->axis >= whole->rank || box->n_sections == 0 ||
            box->n_sections > PST_BOX_SECTIONS || whole->muon != 0 || box->padding >= w->parts ||
            (box->padding > 0 && box->n_sections > 1)) {
            return false;
        }
        for (uint32_t i = 0; i < box->n_sections; i++) {
            if (box->sections[i] == 0 || (box->sections[i] + box->padding) % w->parts != 0) {
                return false;
            }
            sum += box->sections[i];
        }
        if (sum != whole->dims[box->axis]) {
            return false;
        }
        dims[box->axis] = (dims[box->axis] + box->padding) / w->parts;
    }
    for (uint32_t a = 0; a < whole->rank; a++) {
        elems *= dims[a];
    }
    return local->rank == whole->rank && local->elems == elems &&
           memcmp(local->dims, dims, whole->rank * sizeof *dims) == 0;
}

/* All operators that use it are of one degree: that of the parts of it. */
static void enter_users(struct pst_split_walk *w, const struct pst_parameter *local)
{
    w->parts = pst_graph_parts(w->graph, local->users[0]);
    for (uint32_t u = 1; u < local->n_users; u++) {
        const uint32_t other = pst_graph_parts(w->graph, local->users[u]);
        if (other != w->parts) {
            pst_split_fault(w, "SPLIT4", "parameter %s is shared by %u parts, and by %u",
                            local->name, w->parts, other);
        }
    }
}

static void check_params(struct pst_split_walk *w)
{
    if (w->graph->n_params != w->whole->n_params) {
        pst_split_fault(w, "SPLIT4", "%u parameters, the whole model has %u", w->graph->n_params,
                        w->whole->n_params);
    }
    for (uint32_t p = 0; p < w->graph->n_params; p++) {
        const struct pst_parameter *local = &w->graph->params[p], *whole = whole_param(w, p);
        enter_users(w, local);
        if (whole != &w->whole->params[p] || !covers_once(w, local, whole)) {
            pst_split_fault(
                w, "SPLIT4", "the parts do not cover each element of parameter %s once%s",
                local->name, whole != NULL && whole->muon != 0 ? "; Muon needs all of it" : "");
        } else if (local->dtype != whole->dtype || local->init != whole->init ||
                   local->init_scale != whole->init_scale || local->decay != whole->decay ||
                   local->rule != whole->rule || local->muon != whole->muon) {
            pst_split_fault(w, "SPLIT4", "parameter %s is not of the kind that it is in the whole",
                            local->name);
        }
    }
}

const struct pst_parameter *pst_split_param(struct pst_split_walk *w, uint32_t slot)
{
    const bool local = slot < w->op->n_param && w->op->param[slot] != PST_NONE;
    const bool whole = slot < w->of->n_param && w->of->param[slot] != PST_NONE;
    if (local != whole || (local && strcmp(w->graph->params[w->op->param[slot]].name,
                                           w->whole->params[w->of->param[slot]].name) != 0)) {
        pst_split_fault(w, "SPLIT1", "its parameter %u is not that of the whole model", slot);
        return NULL;
    }
    return local ? &w->graph->params[w->op->param[slot]] : NULL;
}

/* --- attributes --------------------------------------------------------------------------------*/

#define FIELD(name)                                                                                \
    {                                                                                              \
        offsetof(struct pst_op, name), sizeof(((struct pst_op *)NULL)->name), #name                \
    }

static const struct {
    size_t at, bytes;
    const char *name;
} attributes[] = {
    FIELD(kind),      FIELD(layer),     FIELD(n_in),       FIELD(n_out),
    FIELD(n_state),   FIELD(act),       FIELD(transposed), FIELD(causal),
    FIELD(window),    FIELD(head_dim),  FIELD(rope),       FIELD(experts_per_token),
    FIELD(normalize), FIELD(capacity),  FIELD(aux_loss),   FIELD(max_distance),
    FIELD(scale),     FIELD(bag),       FIELD(padding),    FIELD(kernel),
    FIELD(stride),    FIELD(pad),       FIELD(pad_more),   FIELD(dilation),
    FIELD(groups),    FIELD(whole),     FIELD(p),          FIELD(smoothing),
    FIELD(z_loss),    FIELD(eps),       FIELD(momentum),   FIELD(map),
    FIELD(reduce),    FIELD(constants), FIELD(axis),       FIELD(axes),
    FIELD(swapped),   FIELD(logarithm), FIELD(salt),       FIELD(positions),
    FIELD(heads),     FIELD(kv_heads),  FIELD(custom),     FIELD(parts),
    FIELD(row),       FIELD(partial),   FIELD(classes),
};

static bool same_form(const struct pst_form *a, const struct pst_form *b)
{
    uint64_t elems = 1;
    if (a == NULL || b == NULL) {
        return a == b;
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        elems *= a->dims[i];
    }
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->from, b->from, sizeof a->from) == 0 &&
           memcmp(a->start, b->start, sizeof a->start) == 0 &&
           memcmp(a->step, b->step, sizeof a->step) == 0 && a->dtype == b->dtype &&
           memcmp(&a->fill, &b->fill, sizeof a->fill) == 0 &&
           (a->data == NULL || b->data == NULL
                ? a->data == b->data
                : memcmp(a->data, b->data, elems * pst_dtype_bytes(a->dtype)) == 0);
}

/* A part has the attributes of the whole operator, but its share of the heads; `parts` and `row`
   are set where random numbers depend on an element's place in the whole. */
static void check_attributes(struct pst_split_walk *w, const struct pst_split_place *place)
{
    const bool divided = place->layout == PST_LAYOUT_SPLIT;
    struct pst_op wanted = *w->of;
    wanted.parts = w->of->p > 0 && place->layout != PST_LAYOUT_WHOLE ? w->parts : 0;
    wanted.row = wanted.parts > 0 && divided ? (uint32_t)(place->sections[0] / w->parts) : 0;
    if (wanted.parts > 0 &&
        (wanted.row > 0 ? wanted.row : w->whole->tensors[w->of->out[0]].elems / w->parts) %
                PST_PHILOX_WORDS !=
            0) {
        pst_split_fault(w, "SPLIT2",
                        "its random numbers are drawn %u at a time, which do not "
                        "divide its elements in a row",
                        PST_PHILOX_WORDS);
    }
    wanted.partial = 0;
    for (uint32_t i = 0; place->partial && i < w->of->n_param; i++) {
        wanted.partial |= w->of->param[i] != PST_NONE ? 1u << i : 0;
    }
    if (place->classes > 0) {
        wanted.parts = w->parts;
        wanted.classes = (uint32_t)place->classes;
        if (place->classes > UINT32_MAX) {
            pst_split_fault(w, "SPLIT2", "%llu classes are more than an operator can have",
                            (unsigned long long)place->classes);
        }
    }
    if (w->op->kind == PST_OP_CE_JOIN) {
        wanted.kind = PST_OP_CE_JOIN; /* whose layouts have been judged */
        wanted.n_in = w->of->n_in + 1;
    }
    if (divided) {
        wanted.heads /= w->parts;
        wanted.kv_heads /= w->parts;
    }
    for (uint32_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (memcmp((const char *)&wanted + attributes[i].at, (const char *)w->op + attributes[i].at,
                   attributes[i].bytes) != 0) {
            pst_split_fault(w, "SPLIT1", "its attribute %s is not that of a part",
                            attributes[i].name);
        }
    }
    if (!same_form(w->op->form, w->of->form) ||
        memcmp(w->op->state_elems, w->of->state_elems,
               w->of->n_state * sizeof *w->of->state_elems) != 0) {
        pst_split_fault(w, "SPLIT1", "its shape or statistics are not those of the whole model");
    }
}

/* --- the walk ----------------------------------------------------------------------------------*/

/* The operator of the model itself. */
static void check_part(struct pst_split_walk *w, uint32_t of, bool *found)
{
    struct pst_split_place place = {.of = w->of->out[0]};
    if (found[of]) {
        pst_split_fault(w, "SPLIT1", "is there twice");
    }
    found[of] = true;
    const bool joins = w->op->kind == PST_OP_CE_JOIN && w->of->kind == PST_OP_CROSS_ENTROPY;
    if ((!joins && w->op->kind != w->of->kind) || w->op->n_in != w->of->n_in + joins ||
        w->op->n_out != w->of->n_out || w->op->n_state != w->of->n_state) {
        pst_split_fault(w, "SPLIT1", "is another operator than in the whole model");
        return;
    }
    pst_split_way(w, &place);
    check_attributes(w, &place);
    pst_split_place(w, w->op->out[0], place);
    for (uint32_t k = 1; k < w->op->n_out; k++) {
        place_aux(w, k, place.layout);
    }
}

/* Returns true if the logits stay divided: evaluation puts their columns together. */
static bool has_apart_logits(const struct pst_split_walk *w)
{
    const struct pst_graph *graph = w->graph;
    const uint32_t loss = graph->tensors[graph->loss].producer;
    return loss < graph->n_ops && graph->ops[loss].kind == PST_OP_CE_JOIN;
}

static void check_ends(struct pst_split_walk *w, const bool *found)
{
    const struct pst_graph *graph = w->graph, *whole = w->whole;
    const uint32_t ends[2][2] = {{graph->loss, whole->loss}, {graph->logits, whole->logits}};
    const bool apart = has_apart_logits(w);
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        if (!found[v]) {
            pst_split_fault(w, "SPLIT1", "operator %s of the whole model comes nowhere",
                            whole->ops[v].name);
        }
    }
    for (uint32_t i = 0; i < 2 && !w->wrong; i++) {
        const uint32_t here = ends[i][0];
        if ((here == PST_NONE) != (ends[i][1] == PST_NONE) ||
            (here != PST_NONE &&
             (w->places[here].of != ends[i][1] ||
              w->places[here].layout != (i == 1 && apart ? PST_LAYOUT_SPLIT : PST_LAYOUT_WHOLE) ||
              w->places[here].no_bias || (i == 1 && apart && w->places[here].n_sections != 1)))) {
            pst_split_fault(w, "SPLIT2", "%s are not those of the whole model, on all parts",
                            i == 0 ? "losses" : "logits");
        }
    }
    if (graph->slices != whole->slices || graph->token_batch != whole->token_batch) {
        pst_split_fault(w, "SPLIT1", "samples are other ones than those of the whole model");
    }
}

static void check_inputs(struct pst_split_walk *w)
{
    if (w->graph->n_inputs != w->whole->n_inputs) {
        pst_split_fault(w, "SPLIT1", "%u inputs, the whole model has %u", w->graph->n_inputs,
                        w->whole->n_inputs);
    }
    for (uint32_t t = 0; t < w->graph->n_inputs && !w->wrong; t++) {
        if (w->graph->tensors[t].field != w->whole->tensors[t].field) {
            pst_split_fault(w, "SPLIT1", "input %u is other data than in the whole model", t);
        }
        pst_split_place(w, t, (struct pst_split_place){.of = t});
    }
}

/* Each operator is one of the model's, or serves it, and has a degree. */
static void check_owners(struct pst_split_walk *w)
{
    const struct pst_graph *graph = w->graph;
    for (uint32_t v = 0; v < graph->n_ops && !w->wrong; v++) {
        w->op = &graph->ops[v];
        if (graph->op_of[v] >= w->whole->n_ops) {
            pst_split_fault(w, "SPLIT1", "belongs to no operator of the whole model");
        } else if (pst_graph_parts(graph, v) < 1 || pst_graph_parts(graph, v) > graph->parts) {
            pst_split_fault(w, "SPLIT1", "is shared by %u parts; a replica has 1 to %u",
                            pst_graph_parts(graph, v), graph->parts);
        }
    }
    w->op = NULL;
}

void pst_check_layouts(struct pst_check *check)
{
    const struct pst_graph *graph = check->graph;
    struct pst_split_walk w = {
        .check = check, .graph = graph, .whole = graph->whole, .parts = graph->parts};
    bool *found;
    if (graph->whole == NULL || graph->op_of == NULL || graph->whole->parts > 1) {
        pst_split_fault(&w, "SPLIT1", "the graph of a part has no whole model");
        return;
    }
    found = pst_check_array(check, w.whole->n_ops, sizeof *found);
    w.places = pst_check_array(check, graph->n_tensors, sizeof *w.places);
    check_owners(&w);
    if (w.wrong) {
        return;
    }
    check_params(&w);
    check_inputs(&w);
    for (uint32_t v = 0; v < graph->n_ops && !w.wrong; v++) {
        const uint32_t of = graph->op_of[v];
        w.op = &graph->ops[v];
        w.of = &w.whole->ops[of];
        w.parts = pst_graph_parts(graph, v);
        pst_split_degrees(&w);
        if (strcmp(w.op->name, w.of->name) == 0) {
            check_part(&w, of, found);
        } else {
            pst_split_helper(&w);
        }
    }
    w.op = NULL;
    check_ends(&w, found);
}
