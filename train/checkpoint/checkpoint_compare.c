/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a checkpoint with a job: one value of the model, or the keys of one section of the
 * config. The caller decides what a difference means, to resume or to begin with its weights.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "graph/draft.h"

bool pst_checkpoint_has(const struct pst_checkpoint *checkpoint, const struct pst_graph *graph,
                        const struct pst_state_key *key, uint64_t elems,
                        const struct pst_checkpoint_tensor **ret_tensor,
                        char difference[PST_CHECKPOINT_DIFFERENCE])
{
    char name[PST_CHECKPOINT_NAME], here[200], there[200];
    uint64_t shape[PST_ST_RANK];
    const struct pst_checkpoint_tensor *tensor;
    const uint32_t rank = pst_state_shape(graph, key, elems, shape);

    pst_state_name(graph, key, name);
    *ret_tensor = tensor = pst_checkpoint_find(checkpoint, name);
    if (tensor == NULL) {
        snprintf(difference, PST_CHECKPOINT_DIFFERENCE, "%.300s is not in the checkpoint", name);
        return false;
    }
    snprintf(difference, PST_CHECKPOINT_DIFFERENCE, "%.300s is %s, in the checkpoint %s", name,
             pst_shape_text(here, sizeof here, rank, shape),
             pst_shape_text(there, sizeof there, tensor->rank, tensor->shape));
    return tensor->rank == rank && memcmp(tensor->shape, shape, rank * sizeof *shape) == 0;
}

static void compare_key(const struct pst_config_node *here, const struct pst_config_node *there,
                        void (*tell)(void *context, const struct pst_checkpoint_setting *setting),
                        void *context)
{
    char *now = here == NULL ? NULL : pst_config_value_json(here);
    char *was = there == NULL ? NULL : pst_config_value_json(there);

    if (now == NULL || was == NULL || strcmp(now, was) != 0) {
        tell(context, &(struct pst_checkpoint_setting){here == NULL ? there->key : here->key,
                                                       now == NULL ? "its default" : now,
                                                       was == NULL ? "its default" : was});
    }
    free(now);
    free(was);
}

void pst_checkpoint_compare(
    const struct pst_checkpoint *checkpoint, const struct pst_config *config, const char *section,
    void (*tell)(void *context, const struct pst_checkpoint_setting *setting), void *context)
{
    struct pst_config_node *here, *there;
    struct pst_config *written = NULL;
    struct pst_error unused = {0};

    if (config == NULL || checkpoint->manifest.config == NULL ||
        pst_config_from_json(checkpoint->manifest.config, &written, &unused) != PST_OK) {
        return;
    }
    here = pst_config_get(config->root, section);
    there = pst_config_get(written->root, section);
    for (uint32_t i = 0; here != NULL && i < here->n_children; i++) {
        compare_key(here->children[i], pst_config_get(there, here->children[i]->key), tell,
                    context);
    }
    for (uint32_t i = 0; there != NULL && i < there->n_children; i++) {
        if (pst_config_get(here, there->children[i]->key) == NULL) {
            compare_key(NULL, there->children[i], tell, context);
        }
    }
    pst_config_destroy(written);
}
