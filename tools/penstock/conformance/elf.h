/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic symbols of a shared object, read from the file: nothing of it is run.
 */
#ifndef PST_CONFORMANCE_ELF_H
#define PST_CONFORMANCE_ELF_H

#include "base/arena.h"
#include "base/error.h"

struct pst_elf_symbols {
    uint32_t n_exports, n_imports;
    const char **exports, **imports; /* names, in the order of the file */
};

/* PST_ERR_IO, kind plugin.load, where the file is none or is damaged. */
pst_status pst_elf_read(const char *path, struct pst_arena *arena,
                        struct pst_elf_symbols *ret_symbols, struct pst_error *err);

#endif
