/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/elf.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

typedef ElfW(Ehdr) elf_header;
typedef ElfW(Shdr) elf_section;
typedef ElfW(Sym) elf_symbol;

struct file {
    char *bytes;
    size_t n;
};

/* Is [offset, offset + size) inside the file, and aligned for what lies there? */
static bool within(const struct file *file, uint64_t offset, uint64_t size)
{
    return offset <= file->n && size <= file->n - offset && offset % 8 == 0;
}

static const elf_section *section_at(const struct file *file, const elf_header *header, uint32_t i)
{
    uint64_t offset = header->e_shoff + (uint64_t)i * sizeof(elf_section);

    if (header->e_shentsize != sizeof(elf_section) || i >= header->e_shnum ||
        !within(file, offset, sizeof(elf_section))) {
        return NULL;
    }
    return (const elf_section *)(const void *)(file->bytes + offset);
}

static void collect(const struct file *file, const elf_section *table, const elf_section *names,
                    struct pst_arena *arena, struct pst_elf_symbols *ret_symbols)
{
    const elf_symbol *symbols = (const elf_symbol *)(const void *)(file->bytes + table->sh_offset);
    uint64_t n = table->sh_size / sizeof *symbols, i;

    ret_symbols->exports = pst_arena_array(arena, n, sizeof *ret_symbols->exports);
    ret_symbols->imports = pst_arena_array(arena, n, sizeof *ret_symbols->imports);
    for (i = 1; i < n; i++) {
        const elf_symbol *symbol = &symbols[i];
        const char *name = file->bytes + names->sh_offset + symbol->st_name;
        unsigned binding = symbol->st_info >> 4; /* the same in both ELF classes */

        if (symbol->st_name >= names->sh_size || binding == STB_LOCAL) {
            continue;
        }
        name = pst_arena_strdup(arena, name);
        if (symbol->st_shndx == SHN_UNDEF) {
            ret_symbols->imports[ret_symbols->n_imports++] = name;
        } else if ((symbol->st_other & 3) == STV_DEFAULT && symbol->st_shndx != SHN_ABS) {
            ret_symbols->exports[ret_symbols->n_exports++] = name;
        }
    }
}

static pst_status read_symbols(const struct file *file, struct pst_arena *arena,
                               struct pst_elf_symbols *ret_symbols)
{
    const elf_header *header = (const elf_header *)(const void *)file->bytes;
    uint32_t i;

    if (file->n < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return PST_ERR_IO;
    }
    for (i = 0; i < header->e_shnum; i++) {
        const elf_section *table = section_at(file, header, i), *names;

        if (table == NULL) {
            return PST_ERR_IO;
        }
        if (table->sh_type != SHT_DYNSYM) {
            continue;
        }
        names = section_at(file, header, table->sh_link);
        if (names == NULL || !within(file, table->sh_offset, table->sh_size) ||
            names->sh_offset > file->n || names->sh_size > file->n - names->sh_offset) {
            return PST_ERR_IO;
        }
        collect(file, table, names, arena, ret_symbols);
        return PST_OK;
    }
    return PST_ERR_IO;
}

pst_status pst_elf_read(const char *path, struct pst_arena *arena,
                        struct pst_elf_symbols *ret_symbols, struct pst_error *err)
{
    struct pst_elf_symbols symbols = {0};
    struct file file = {0};
    pst_status status =
        pst_file_read(path, (size_t)1 << 30, "input.path", &file.bytes, &file.n, err);

    if (status != PST_OK) {
        return status;
    }
    status = read_symbols(&file, arena, &symbols);
    free(file.bytes);
    if (status != PST_OK) {
        return pst_fail(err, status, "plugin.load", "%s: no table of dynamic symbols could be read",
                        path);
    }
    *ret_symbols = symbols;
    return PST_OK;
}
