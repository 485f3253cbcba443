/* SPDX-License-Identifier: Apache-2.0
 *
 * Before devices are opened: is there room for all arenas together? One that comes last on a device
 * that several ranks share would else find out alone.
 */
#include "base/memory.h"
#include "exec/internal.h"

#include <stdlib.h>

uint64_t exec_arena_bytes(const struct pst_exec *exec, uint32_t rank)
{
    const struct pst_exec_config *config = &exec->config;
    const uint64_t train = config->programs[rank]->arena_bytes;
    const uint64_t eval = config->eval_plan != NULL ? config->eval_programs[rank]->arena_bytes : 0;

    return train > eval ? train : eval;
}

pst_status exec_check_room(struct pst_exec *exec, struct pst_error *err)
{
    struct pst_device_config *device = &exec->config.device_config;
    uint64_t *bytes;
    pst_status status;

    device->first_rank = exec->first_local;
    device->n_ranks = exec->n_local;
    if (exec->config.device->fits == NULL) {
        return PST_OK;
    }
    bytes = pst_alloc(exec->n_local, sizeof *bytes);
    for (uint32_t i = 0; i < exec->n_local; i++) {
        bytes[i] = exec_arena_bytes(exec, exec->first_local + i);
    }
    status = exec->config.device->fits(device, bytes, err);
    free(bytes);
    return status;
}
