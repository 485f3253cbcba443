/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a partitioner: remarks on its answer, and why there is none.
 */
#include <math.h>
#include <stdio.h>

#include "answer.h"

static const struct pst_remark *remarks(const struct part_problem *p)
{
    return p->host == NULL ? NULL : p->host->get_extension(p->host, PST_REMARK);
}

void part_remark_number(const struct part_problem *p, const char *key, double value)
{
    const struct pst_remark *remark = remarks(p);

    if (remark != NULL) {
        remark->number(p->host, key, value);
    }
}

void part_remark_text(const struct part_problem *p, const char *key, const char *value)
{
    const struct pst_remark *remark = remarks(p);

    if (remark != NULL) {
        remark->text(p->host, key, value);
    }
}

void part_remark_flag(const struct part_problem *p, const char *key, bool value)
{
    const struct pst_remark *remark = remarks(p);

    if (remark != NULL) {
        remark->flag(p->host, key, value);
    }
}

void part_remark_stage_bytes(const struct part_problem *p, const double *bytes, uint32_t n)
{
    enum { DIGITS = 24 };
    char *text = call_alloc((size_t)n * DIGITS + 1, 1);
    size_t used = 0;
    double worst = 0;
    uint32_t s;

    for (s = 0; s < n; s++) {
        worst = fmax(worst, bytes[s]);
        used += (size_t)snprintf(text + used, DIGITS, "%s%.0f", s == 0 ? "" : ",",
                                 fmin(ceil(bytes[s]), 1e19));
    }
    part_remark_number(p, "worst_stage_bytes", worst);
    if (n > 0) {
        /* without it the host counts by its own model */
        part_remark_text(p, "stage_bytes", text);
    }
}

/* A node alone as the last stage, at the degree that leaves it least memory. */
static double alone_bytes(const struct part_problem *p, uint32_t v, uint32_t b)
{
    double least = INFINITY;
    uint32_t k;

    for (k = 0; k < p->n_degrees; k++) {
        if (b % p->degrees[k] == 0) {
            least = fmin(least, part_memory(p, p->weight_bytes[v], p->saved_bytes[v],
                                            p->workspace_bytes[v], p->degrees[k], b));
        }
    }
    return least;
}

pst_status part_infeasible(const struct part_problem *p, uint32_t b)
{
    double worst_bytes = -1, all = 0;
    uint32_t v, worst = 0;

    if (p->host == NULL) {
        return PST_ERR_INFEASIBLE;
    }
    for (v = 0; v < p->n; v++) {
        double bytes = alone_bytes(p, v, b);

        if (bytes > worst_bytes) {
            worst = v;
            worst_bytes = bytes;
        }
        all += part_memory(p, p->weight_bytes[v], p->saved_bytes[v], 0, 1, b);
    }
    if (isinf(worst_bytes)) {
        return pst_failf(p->host, PST_ERR_INFEASIBLE,
                         "no allowed degree divides the micro-batch size %u", b);
    }
    if (!part_fits(p, worst_bytes)) {
        return pst_failf(
            p->host, PST_ERR_INFEASIBLE,
            "node \"%s\" alone is charged %.0f bytes at micro-batch size %u, a device has "
            "%.0f bytes",
            part_node_name(p, worst), ceil(worst_bytes), b, p->capacity_bytes);
    }
    if (isinf(p->capacity_bytes)) {
        return pst_failf(p->host, PST_ERR_INFEASIBLE,
                         "no stages were found whose numbers of replicas go with micro-batches of "
                         "%u samples and %u devices; allow other sizes or degrees",
                         b, p->n_devices);
    }
    return pst_failf(p->host, PST_ERR_INFEASIBLE,
                     "no partition found that fits: parameters and one micro-batch of size %u are "
                     "charged %.0f bytes in all, stages ahead of others hold several; %u devices "
                     "have %.0f bytes each (the largest node, \"%s\", is charged %.0f)",
                     b, ceil(all), p->n_devices, p->capacity_bytes, part_node_name(p, worst),
                     ceil(worst_bytes));
}

const char *part_size_text(char text[64], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    uint32_t unit = 0;

    if (bytes < 1024) {
        snprintf(text, 64, "%llu bytes", (unsigned long long)bytes);
        return text;
    }
    for (; value >= 1024; unit++) {
        value /= 1024;
    }
    snprintf(text, 64, "%.*f %s (%llu bytes)", value < 100 ? 2 : 1, value, units[unit],
             (unsigned long long)bytes);
    return text;
}

pst_status part_too_few_nodes(const struct pst_host *host, uint32_t wanted, uint32_t n)
{
    return pst_failf(host, PST_ERR_INFEASIBLE,
                     "%u stages are wanted but the graph has only %u nodes; use fewer devices, "
                     "fewer stages on each, or a deeper model",
                     wanted, n);
}
