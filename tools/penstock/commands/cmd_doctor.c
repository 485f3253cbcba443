/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock doctor`: facts for a bug report and for the question why something is not used.
 */
#include "commands/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "commands/machine.h"
#include "reports/table.h"

static void print_modules(const struct pst_machine *machine, bool color)
{
    struct pst_table table;

    pst_table_init(&table, "module|usable|what it is, or why not");
    for (uint32_t i = 0; i < machine->n_modules; i++) {
        const struct pst_machine_module *m = &machine->modules[i];

        pst_table_cell(&table, "%s-%s", m->kind, m->id);
        pst_table_cell(&table, "%s", m->usable ? "yes" : "no");
        pst_table_cell(&table, "%s", m->text);
    }
    pst_table_end(&table, stdout, "", color);
}

static void print_machine(const struct pst_machine *machine, bool color)
{
    char total[32], free_text[32];

    printf("penstock   %s, built by %s\n", machine->version, machine->compiler);
    printf("system     %s\n", machine->system);
    printf("processor  %s; %u cores usable of %u\n", machine->processor, machine->usable_cores,
           machine->cores);
    printf("memory     %s, %s available\n\n", pst_format_bytes(total, machine->memory_bytes),
           pst_format_bytes(free_text, machine->available_bytes));
    print_modules(machine, color);
    if (machine->n_missing > 0) {
        fputs("\nnot to be had here\n", stdout);
    }
    for (uint32_t i = 0; i < machine->n_missing; i++) {
        printf("  %-28s %s\n", machine->missing[i].name, machine->missing[i].text);
    }
    fputs("\nlibraries\n", stdout);
    for (uint32_t i = 0; i < machine->n_libraries; i++) {
        printf("  %-10s %s\n", machine->libraries[i].name, machine->libraries[i].text);
    }
    fputs("plugin folders, in the order of search\n", stdout);
    for (uint32_t i = 0; i < machine->n_folders; i++) {
        printf("  %s\n", machine->folders[i]);
    }
    printf("planning\n  in this process with plugins that are on the list %s,\n"
           "  else in one of its own that may take %s (plugins.isolate = \"auto\")\n",
           machine->trusted_list, pst_format_bytes(total, machine->planner_bytes));
    fputs("environment\n", stdout);
    for (uint32_t i = 0; i < machine->n_variables; i++) {
        printf("  %s=%s\n", machine->variables[i].name, machine->variables[i].text);
    }
    if (machine->n_variables == 0) {
        fputs("  nothing that matters is set\n", stdout);
    }
}

static void add_facts(struct pst_json *json, const char *key, const struct pst_machine_fact *facts,
                      uint32_t n)
{
    pst_json_object(json, key);
    for (uint32_t i = 0; i < n; i++) {
        pst_json_string(json, facts[i].name, facts[i].text);
    }
    pst_json_end(json, '}');
}

static void machine_json(const struct pst_machine *machine, struct pst_json *json)
{
    pst_json_string(json, "version", machine->version);
    pst_json_string(json, "compiler", machine->compiler);
    pst_json_string(json, "system", machine->system);
    pst_json_string(json, "processor", machine->processor);
    pst_json_uint(json, "cores", machine->cores);
    pst_json_uint(json, "usable_cores", machine->usable_cores);
    pst_json_uint(json, "memory_bytes", machine->memory_bytes);
    pst_json_uint(json, "available_bytes", machine->available_bytes);
    pst_json_array(json, "modules");
    for (uint32_t i = 0; i < machine->n_modules; i++) {
        pst_json_object(json, NULL);
        pst_json_string(json, "kind", machine->modules[i].kind);
        pst_json_string(json, "id", machine->modules[i].id);
        pst_json_bool(json, "usable", machine->modules[i].usable);
        pst_json_string(json, "text", machine->modules[i].text);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    add_facts(json, "missing", machine->missing, machine->n_missing);
    add_facts(json, "libraries", machine->libraries, machine->n_libraries);
    pst_json_strings(json, "plugin_folders", machine->folders, machine->n_folders);
    pst_json_object(json, "planning");
    pst_json_string(json, "isolate", "auto");
    pst_json_string(json, "trusted_list", machine->trusted_list);
    pst_json_uint(json, "memory_limit_bytes", machine->planner_bytes);
    pst_json_end(json, '}');
    add_facts(json, "environment", machine->variables, machine->n_variables);
}

static pst_status doctor(struct pst_cli *cli, void *request, struct pst_error *err)
{
    struct pst_machine machine;
    pst_status st = pst_machine_examine(&machine, err);

    (void)request;
    if (st == PST_OK && cli->json) {
        machine_json(&machine, &cli->answer);
    } else if (st == PST_OK) {
        print_machine(&machine, cli->color);
    }
    pst_machine_finish(&machine);
    return st;
}

const struct pst_command pst_cmd_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "Shows what this machine has",
    .run = doctor,
};
