/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <string.h>

const struct pst_model_builder *const pst_model_builders[] = {
    &pst_model_mlp,       &pst_model_gpt, &pst_model_bert, &pst_model_t5,     &pst_model_resnet,
    &pst_model_amoebanet, &pst_model_mmt, &pst_model_dlrm, &pst_model_candle, NULL};

const struct pst_model_builder *pst_model_builder_find(const char *id)
{
    for (uint32_t i = 0; pst_model_builders[i] != NULL; i++) {
        if (strcmp(pst_model_builders[i]->id, id) == 0) {
            return pst_model_builders[i];
        }
    }
    return NULL;
}
