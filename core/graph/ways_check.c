/* SPDX-License-Identifier: Apache-2.0
 *
 * What parallel.ways demands by name is divisible, or refused by name.
 */
#include "graph/ways.h"

#include <stdio.h>

#include "graph/op_rules.h"

const char *const pst_ways_names[] = {[PST_WAYS_AUTO] = "auto",
                                      [PST_WAYS_MEGATRON] = "megatron",
                                      [PST_WAYS_ULYSSES] = "ulysses",
                                      [PST_WAYS_ROWS] = "rows",
                                      NULL};

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

static pst_status check_heads(const struct pst_op *op, const struct pst_division *how,
                              struct pst_error *err)
{
    const uint32_t keys = pst_op_kv_heads(op);
    const bool queries = op->heads % how->parts != 0;
    char advice[128];

    if (!queries && keys % how->parts == 0) {
        return PST_OK;
    }
    advise_divisors(common_divisor(op->heads, keys), advice, sizeof advice);
    return pst_fail(err, PST_ERR_CONFIG, "config.value",
                    "%s: ways = \"%s\" cannot divide %u %sheads by %u; %sset ways = \"auto\"",
                    op->name, pst_ways_names[how->ways], queries ? op->heads : keys,
                    queries ? "" : "key ", how->parts, advice);
}

static pst_status check_rows(const struct ways *ways, const struct pst_op *op,
                             const struct pst_division *how, struct pst_error *err)
{
    const struct pst_tensor *result = &ways->graph->tensors[op->out[0]];

    return !pst_ways_by_row(ways, op) || result->dims[0] % how->parts == 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "%s: ways = \"%s\": %llu tokens cannot be divided by %u; take another "
                          "length or parallel.tensor, or set ways = \"auto\"",
                          op->name, pst_ways_names[how->ways], (unsigned long long)result->dims[0],
                          how->parts);
}

pst_status pst_graph_check_ways(const struct pst_graph *whole, const struct pst_division *how,
                                struct pst_error *err)
{
    const bool rows = how->ways == PST_WAYS_ROWS || how->ways == PST_WAYS_ULYSSES;
    const bool heads = how->ways == PST_WAYS_MEGATRON || how->ways == PST_WAYS_ULYSSES;
    const struct ways ways = {.graph = whole, .parts = how->parts, .rows = true};
    pst_status status = PST_OK;

    for (uint32_t v = 0; v < whole->n_ops && status == PST_OK; v++) {
        const struct pst_op *op = &whole->ops[v];

        if (heads && pst_ways_attends(op)) {
            status = check_heads(op, how, err);
        }
        if (rows) {
            PST_TRY(status, check_rows(&ways, op, how, err));
        }
    }
    return status;
}
