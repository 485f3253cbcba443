/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a parameter that a part has.
 */
#include "graph/split.h"

uint64_t pst_box_dim(const struct pst_box *box)
{
    uint64_t places = 0;

    for (uint32_t s = 0; s < box->n_sections; s++) {
        places += box->sections[s];
    }
    return places;
}

uint64_t pst_box_whole(const struct pst_parameter *parameter)
{
    const struct pst_box *box = &parameter->box;

    return pst_is_split(parameter)
               ? parameter->elems / parameter->dims[box->axis] * pst_box_dim(box)
               : parameter->elems;
}

void pst_box_runs(const struct pst_parameter *parameter, uint32_t part, pst_box_run *run,
                  void *context)
{
    const struct pst_box *box = &parameter->box;
    uint64_t outer = 1, inner = 1, own = 0, at = 0;

    if (!pst_is_split(parameter)) {
        run(context, 0, 0, parameter->elems);
        return;
    }
    for (uint32_t a = 0; a < parameter->rank; a++) {
        outer *= a < box->axis ? parameter->dims[a] : 1;
        inner *= a > box->axis ? parameter->dims[a] : 1;
    }
    for (uint64_t o = 0; o < outer; o++) {
        for (uint32_t s = 0; s < box->n_sections; s++) {
            const uint64_t n = (box->sections[s] + box->padding) / box->parts;
            const uint64_t there = pst_own_places(box->sections[s], n, part);

            if (there > 0) {
                run(context, at + part * n * inner, own, there * inner);
            }
            at += box->sections[s] * inner;
            own += n * inner;
        }
    }
}
