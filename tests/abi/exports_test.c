/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins of the tree export and import, read from their symbol tables; and the layout of the
 * structs that cross the boundary, which never changes but at the end.
 */
#include <penstock/penstock.h>

#include "test.h"

#include <elf.h>
#include <glob.h>
#include "support.h"

/* The dynamic symbol table of an ELF file in memory. */
struct symbols {
    const Elf64_Sym *rows;
    size_t n;
    const char *names;
};

static struct symbols dynamic_symbols(const char *data)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)data;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(data + header->e_shoff);
    struct symbols symbols = {NULL, 0, NULL};

    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type == SHT_DYNSYM) {
            symbols.rows = (const Elf64_Sym *)(data + sections[i].sh_offset);
            symbols.n = sections[i].sh_size / sizeof(Elf64_Sym);
            symbols.names = data + sections[sections[i].sh_link].sh_offset;
        }
    }
    assert_non_null(symbols.rows);
    return symbols;
}

static void check_plugin(const char *path)
{
    char *data = support_read(path);
    struct symbols symbols;
    unsigned exported = 0;

    assert_non_null(data);
    symbols = dynamic_symbols(data);
    for (size_t i = 1; i < symbols.n; i++) {
        const char *name = symbols.names + symbols.rows[i].st_name;

        if (symbols.rows[i].st_shndx == SHN_UNDEF) {
            if (strncmp(name, "pst_", 4) == 0) {
                fail_msg("%s imports %s", path, name);
            }
        } else if (strncmp(name, "__", 2) != 0) { /* sanitizers have some of their own */
            if (strcmp(name, "pst_plugin_entry") != 0) {
                fail_msg("%s exports %s", path, name);
            }
            exported++;
        }
    }
    assert_int_equal(exported, 1);
    free(data);
}

TEST(test_one_export_and_no_import)
{
    static const char *const kinds[] = {"partitioner", "scheduler", "memopt", "data", "operator"};

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char pattern[512];
        glob_t found;

        snprintf(pattern, sizeof pattern, "%s/%s-*.so", PENSTOCK_PLUGIN_DIR, kinds[k]);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        assert_true(found.gl_pathc >= (k < 3 ? 2 : 1));
        for (size_t i = 0; i < found.gl_pathc; i++) {
            check_plugin(found.gl_pathv[i]);
        }
        globfree(&found);
    }
}

#define AT(type, field, offset) assert_int_equal(offsetof(struct type, field), offset)

/* As of ABI 1.0 on 64-bit machines. */
TEST(test_layout)
{
    assert_int_equal(sizeof(void *), 8);
    AT(pst_plugin, abi_major, 4);
    AT(pst_plugin, abi_minor, 6);
    AT(pst_plugin, kind, 8);
    AT(pst_plugin, id, 16);
    AT(pst_plugin, params, 72);
    AT(pst_plugin, n_params, 80);
    AT(pst_plugin, config_size, 88);
    AT(pst_plugin, create, 96);
    AT(pst_plugin, get_interface, 112);
    AT(pst_host, impl, 8);
    AT(pst_host, alloc, 16);
    AT(pst_host, get_extension, 48);
    AT(pst_param, type, 32);
    AT(pst_param, offset, 36);
    AT(pst_graph_view, nodes, 24);
    AT(pst_graph_view, out_edges, 48);
    AT(pst_node, param_bytes, 24);
    AT(pst_node, backward_work_bytes, 56);
    AT(pst_node, n_out, 76);
    AT(pst_edge, bytes, 8);
    AT(pst_partition_in, batch, 24);
    AT(pst_partition_in, capacity_bytes, 64);
    AT(pst_stage_decl, microbatch_size, 36);
    AT(pst_partition_out, stage, 16);
    AT(pst_topology, microbatch_multiple, 16);
    AT(pst_place, successors, 40);
    AT(pst_held, weight_versions, 8);
    AT(pst_schedule_in, stages, 24);
    AT(pst_schedule_in, activation_bytes, 48);
    AT(pst_schedule_stage, forward_ns, 16);
    AT(pst_schedule_stage, n_succ, 84);
    AT(pst_schedule_out, part, 32);
    AT(pst_scheduler, schedule, 32);
    AT(pst_stage_view, nodes, 24);
    AT(pst_stage_view, capacity_bytes, 56);
    AT(pst_stage_view, slack_ns, 96);
    AT(pst_stage_node, forward_ns, 16);
    AT(pst_stage_node, n_producers, 60);
    AT(pst_stage_price, peak_bytes, 16);
    AT(pst_action_out, set, 16);
    AT(pst_memopt, plan, 24);
    AT(pst_stage_question, capacity_bytes, 48);
    AT(pst_ask, price, 32);
    AT(pst_cost, allreduce_ns, 24);
    AT(pst_stage_value, extra_ns, 40);
    AT(pst_rng, bits, 8);
}

TEST(test_growth_macros)
{
    struct pst_scheduler f = {.size = offsetof(struct pst_scheduler, in_flight)};

    assert_true(PST_HAS(&f, device_of));
    assert_false(PST_HAS(&f, in_flight));
    assert_false(PST_CAN(&f, device_of)); /* there, but NULL */
}
