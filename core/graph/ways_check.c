/* SPDX-License-Identifier: Apache-2.0
 *
 * What parallel.ways or [[parallel.way]] demands by name is divisible, or refused by name.
 */
#include "graph/ways.h"

#include <stdio.h>

#include "base/philox.h"
#include "base/text.h"
#include "graph/op_rules.h"

const char *const pst_ways_names[] = {[PST_WAYS_AUTO] = "auto",
                                      [PST_WAYS_MEGATRON] = "megatron",
                                      [PST_WAYS_ULYSSES] = "ulysses",
                                      [PST_WAYS_ROWS] = "rows",
                                      NULL};

const char *const pst_way_names[] = {"auto",  "whole", "rows",    "column",  "row",
                                     "heads", "vocab", "columns", "experts", NULL};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* "set parallel.tensor to 2, 7 or 14, or " */
static void advise_divisors(uint32_t n, char *text, size_t size)
{
    int at = snprintf(text, size, "%s", n > 1 ? "set parallel.tensor to " : "");

    for (uint32_t d = 2; d <= n && at > 0 && (size_t)at < size; d++) {
        if (n % d == 0) {
            uint32_t next = d + 1;

            while (next < n && n % next != 0) {
                next++;
            }
            at += snprintf(text + at, size - (size_t)at, "%u%s", d,
                           d == n                  ? ", or "
                           : next == n || next > n ? " or "
                                                   : ", ");
        }
    }
    if (at > 0 && (size_t)at >= size) {
        snprintf(text, size, "set parallel.tensor to a divisor of %u, or ", n);
    }
}

static pst_status check_heads(const struct pst_op *op, uint32_t parts,
                              const struct pst_division *how, struct pst_error *err)
{
    const uint32_t keys = pst_op_kv_heads(op);
    const bool queries = op->heads % parts != 0;
    const uint32_t n = queries ? op->heads : keys;
    char advice[128];

    if (!queries && keys % parts == 0) {
        return PST_OK;
    }
    advise_divisors(common_divisor(op->heads, keys), advice, sizeof advice);
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "%s: ways = \"%s\" cannot divide %u %shead%s by %u; %sset ways = \"auto\"",
                    op->name, pst_ways_names[how->ways], n, queries ? "" : "key ",
                    n == 1 ? "" : "s", parts, advice);
}

static pst_status check_rows(const struct ways *ways, const struct pst_op *op,
                             const struct pst_division *how, struct pst_error *err)
{
    const unsigned long long n = ways->graph->tensors[op->out[0]].dims[0];

    return !pst_ways_by_row(ways, op) || n % how->parts == 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "%s: ways = \"%s\": %llu token%s cannot be divided by %u; take another "
                          "length or parallel.tensor, or set ways = \"auto\"",
                          op->name, pst_ways_names[how->ways], n, n == 1 ? "" : "s", how->parts);
}

pst_status pst_graph_check_ways(const struct pst_graph *whole, const struct pst_division *how,
                                struct pst_error *err)
{
    const bool rows = how->ways == PST_WAYS_ROWS || how->ways == PST_WAYS_ULYSSES;
    const bool heads = how->ways == PST_WAYS_MEGATRON || how->ways == PST_WAYS_ULYSSES;
    const struct ways ways = {
        .graph = whole, .parts = how->parts, .rows = true, .asked = how->asked};
    pst_status status = PST_OK;

    for (uint32_t v = 0; v < whole->n_ops && status == PST_OK; v++) {
        const struct pst_op *op = &whole->ops[v];

        if (pst_ways_asked(&ways, op) != PST_WAY_AUTO) {
            continue;
        }
        if (heads && pst_ways_attends(op)) {
            status = check_heads(op, pst_division_degree(how, v), how, err);
        }
        if (rows) {
            PST_TRY(status, check_rows(&ways, op, how, err));
        }
    }
    return status;
}

/* --- ways that are asked for -------------------------------------------------------------------*/

static uint64_t last_of(const struct ways *ways, uint32_t tensor)
{
    const struct pst_tensor *of = &ways->graph->tensors[tensor];

    return of->rank == 0 ? 1 : of->dims[of->rank - 1];
}

/* Does the kind of operator have this way, if all is divisible? */
static bool may_have(const struct ways *ways, const struct pst_op *op, uint32_t way)
{
    const struct ways all = {.graph = ways->graph, .rows = true};
    const bool linear = op->kind == PST_OP_LINEAR;

    switch (way) {
    case PST_WAY_ROWS:
        return pst_ways_by_row(&all, op);
    case PST_WAY_COLUMN:
    case PST_WAY_ROW:
        return linear;
    case PST_WAY_HEADS:
        return op->kind == PST_OP_ATTENTION || op->kind == PST_OP_ROTARY ||
               op->kind == PST_OP_QKNORM;
    case PST_WAY_VOCAB:
        return op->kind == PST_OP_EMBEDDING || op->kind == PST_OP_CROSS_ENTROPY;
    case PST_WAY_COLUMNS:
        return op->kind == PST_OP_ACT || op->kind == PST_OP_GLU || op->kind == PST_OP_DROPOUT ||
               op->kind == PST_OP_EXPERTS;
    default:
        return way == PST_WAY_WHOLE;
    }
}

/* Returns how many places the way divides; *ret_what: the name of one. */
static uint64_t divided_by(const struct ways *ways, const struct pst_op *op, uint32_t way,
                           const char **ret_what)
{
    const uint32_t keys = pst_op_kv_heads(op);

    switch (way) {
    case PST_WAY_ROWS:
        *ret_what = "token";
        return ways->graph->tensors[op->out[0]].dims[0];
    case PST_WAY_HEADS:
        *ret_what = op->heads % ways->parts != 0 ? "head" : "key head";
        return op->heads % ways->parts != 0 || op->kind == PST_OP_ROTARY ? op->heads : keys;
    case PST_WAY_ROW:
        *ret_what = "row";
        return last_of(ways, op->in[0]);
    default:
        *ret_what = "column";
        return op->kind == PST_OP_EXPERTS ? ways->graph->params[op->param[1]].dims[1]
                                          : last_of(ways, op->out[0]);
    }
}

/* "1, 2, 7, 14 would do", or the first of them. */
static void say_divisors(uint64_t n, char *text, size_t size)
{
    uint32_t told = 0;

    text[0] = '\0';
    for (uint64_t d = 1; d <= n && d <= 1024 && told < 12; d++) {
        if (n % d == 0) {
            pst_text_append(text, size, "%s%llu", told++ == 0 ? "" : ", ", (unsigned long long)d);
        }
    }
    pst_text_append(text, size, " would do");
}

/* "whole, rows or column" */
static void say_ways(const struct ways *ways, const struct pst_op *op, char *text, size_t size)
{
    uint32_t left = 0;

    text[0] = '\0';
    for (uint32_t way = PST_WAY_WHOLE; way <= PST_WAY_EXPERTS; way++) {
        left += may_have(ways, op, way);
    }
    for (uint32_t way = PST_WAY_WHOLE; way <= PST_WAY_EXPERTS; way++) {
        if (may_have(ways, op, way)) {
            pst_text_append(text, size, "%s%s", pst_way_names[way],
                            left == 1   ? ""
                            : left == 2 ? " or "
                                        : ", ");
            left--;
        }
    }
}

/* Returns why the operator itself cannot be divided so; NULL: its neighbours prevent it. */
static const char *own_reason(const struct ways *ways, const struct pst_op *op, uint32_t way)
{
    for (uint32_t slot = 0; way != PST_WAY_ROWS && slot < op->n_param; slot++) {
        if (op->param[slot] != PST_NONE && ways->together[op->param[slot]]) {
            return "a parameter of it has other uses, which divide it otherwise or not at all";
        }
    }
    switch (way) {
    case PST_WAY_ROW:
        return op->act != PST_ACT_NONE ? "its activation needs the sum over all parts" : NULL;
    case PST_WAY_ROWS:
        return op->p > 0 && ways->graph->tensors[op->out[0]].elems / ways->parts % PST_PHILOX_WORDS
                   ? "random numbers are drawn for four elements, and a part has no multiple of "
                     "that"
                   : NULL;
    case PST_WAY_VOCAB:
        return op->bag != PST_BAG_NONE ? "it sums several rows of its table" : NULL;
    default:
        return NULL;
    }
}

static pst_status refuse_way(const struct ways *ways, uint32_t v, struct pst_error *err)
{
    const struct pst_op *op = &ways->graph->ops[v];
    const uint32_t way = ways->asked[v];
    const char *reason = own_reason(ways, op, way), *what = "";
    char would[256];
    uint64_t n;

    if (!may_have(ways, op, way)) {
        say_ways(ways, op, would, sizeof would);
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: %s has no way \"%s\"; %s would do", op->name,
                        pst_op_kind_name(op->kind), pst_way_names[way], would);
    }
    n = divided_by(ways, op, way, &what);
    if (way != PST_WAY_VOCAB && n % ways->parts != 0) {
        say_divisors(n, would, sizeof would);
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: way \"%s\" cannot divide %llu %s%s by %u; %s", op->name,
                        pst_way_names[way], (unsigned long long)n, what, n == 1 ? "" : "s",
                        ways->parts, would);
    }
    if (reason != NULL) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "%s: way \"%s\" cannot be: %s; leave it out, or take another", op->name,
                        pst_way_names[way], reason);
    }
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "%s: way \"%s\" does not go with how the operators beside it are divided, and "
                    "it would get \"%s\"; change their ways, too, or leave this one out",
                    op->name, pst_way_names[way], pst_way_names[pst_ways_name(ways, v)]);
}

pst_status pst_ways_check_asked(const struct ways *ways, uint32_t *ret_op, struct pst_error *err)
{
    for (uint32_t v = 0; ways->asked != NULL && v < ways->graph->n_ops; v++) {
        if (ways->asked[v] != PST_WAY_AUTO && ways->asked[v] != pst_ways_name(ways, v)) {
            *ret_op = v;
            return refuse_way(ways, v, err);
        }
    }
    return PST_OK;
}
