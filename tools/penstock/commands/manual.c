/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/manual.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* --- pages -------------------------------------------------------------------------------------*/

/* A text that troff shows as it is; a line that breaks before a blank or an option stays broken. */
static void put_text(FILE *out, const char *text)
{
    bool begins = true;

    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\'')) {
            fputs("\\&", out);
        }
        begins = *text == '\n';
        if (strncmp(text, "\xE2\x80\xA6", 3) == 0) { /* an ellipsis */
            fputs("...", out);
            text += 2;
        } else if (*text == '-' || *text == '\\') {
            fputs(*text == '-' ? "\\-" : "\\e", out);
        } else {
            fputc(*text, out);
        }
    }
}

static void put_option(FILE *out, const struct pst_option *option)
{
    fputs(".TP\n", out);
    if (option->letter != 0) {
        fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
    }
    fputs("\\fB\\-\\-", out);
    put_text(out, option->name);
    fputs("\\fR", out);
    if (option->value_name != NULL) {
        fputs(" \\fI", out);
        put_text(out, option->value_name);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    put_text(out, option->doc);
    fputc('\n', out);
}

static void put_options(FILE *out, const struct pst_command *command)
{
    fputs(".SH OPTIONS\n", out);
    for (uint32_t i = 0; command != NULL && i < command->n_options; i++) {
        put_option(out, &command->options[i]);
    }
    for (uint32_t i = 0; i < pst_n_common_options; i++) {
        if (command == NULL || pst_option_applies(command, i)) {
            put_option(out, &pst_common_options[i]);
        }
    }
}

static void put_head(FILE *out, const char *name, const char *summary)
{
    fputs(".TH PENSTOCK", out);
    for (const char *c = name; *c != '\0'; c++) {
        fprintf(out, c == name ? "\\-%c" : "%c", toupper((unsigned char)*c));
    }
    fprintf(out,
            " 1 \"\" \"penstock %s\" \"Pipeline\\-parallel training\"\n.SH NAME\npenstock%s%s \\- ",
            PENSTOCK_VERSION, name[0] == '\0' ? "" : "\\-", name);
    put_text(out, summary);
    fputs("\n.SH SYNOPSIS\n.B penstock", out);
    fprintf(out, "%s%s\n", name[0] == '\0' ? "" : " ", name);
}

void pst_manual_page(const struct pst_manual *manual, const struct pst_command *command, FILE *out)
{
    put_head(out, command == NULL ? "" : command->name,
             command == NULL ? "trains neural networks as pipelines over several devices"
                             : command->summary);
    fputs("[\\fIoptions\\fR] ", out);
    put_text(out, command == NULL ? "COMMAND ..." : command->arguments);
    fputc('\n', out);
    if (command != NULL && command->text != NULL) {
        fputs(".SH DESCRIPTION\n", out);
        put_text(out, command->text);
        fputc('\n', out);
    } else if (command == NULL) {
        fputs(".SH COMMANDS\n", out);
    }
    for (uint32_t i = 0; command == NULL && i < manual->n_commands; i++) {
        fprintf(out, ".TP\n\\fBpenstock\\-%s\\fR(1)\n", manual->commands[i]->name);
        put_text(out, manual->commands[i]->summary);
        fputc('\n', out);
    }
    put_options(out, command);
    fputs(
        ".SH EXIT STATUS\n"
        "0 success; 1 the work failed, or a check found a fault; 2 the request is wrong;\n"
        "3 a plugin broke its contract; 4 the machine does not have what is needed; 128 plus the\n"
        "signal's number after a signal.\n",
        out);
    fputs(command == NULL ? ".SH SEE ALSO\nThe pages of the commands.\n"
                          : ".SH SEE ALSO\n\\fBpenstock\\fR(1)\n",
          out);
}

/* --- completion --------------------------------------------------------------------------------*/

static void put_names(FILE *out, const struct pst_option *options, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fprintf(out, " --%s", options[i].name);
        if (options[i].letter != 0) {
            fprintf(out, " -%c", options[i].letter);
        }
    }
}

static void put_action_names(FILE *out, const struct pst_action *actions)
{
    for (uint32_t i = 0; actions[i].name != NULL; i++) {
        fprintf(out, "%s%s", i == 0 ? "" : " ", actions[i].name);
    }
}

/* Names of options that a value follows, as patterns of a case. */
static void put_valued(FILE *out, const struct pst_option *options, uint32_t n, bool *any)
{
    for (uint32_t i = 0; i < n; i++) {
        if (options[i].value_name != NULL) {
            fprintf(out, "%s--%s", *any ? "|" : "", options[i].name);
            *any = true;
            if (options[i].letter != 0) {
                fprintf(out, "|-%c", options[i].letter);
            }
        }
    }
}

static void put_bash_words(FILE *out, const char *offers, const char *asks)
{
    if (offers != NULL) {
        fprintf(out, "            words=\"%s\"\n", offers);
    }
    if (asks != NULL) {
        fprintf(out, "            words+=\" $(penstock help --ids %s 2>/dev/null)\"\n", asks);
    }
}

/* The action's name, then one word of its own. */
static void put_bash_actions(FILE *out, const struct pst_action *actions)
{
    fputs("            if ((COMP_CWORD == 2)); then words=\"", out);
    put_action_names(out, actions);
    fputs("\"; fi\n            case $COMP_CWORD:${COMP_WORDS[2]} in\n", out);
    for (; actions->name != NULL; actions++) {
        if (actions->offers != NULL || actions->asks != NULL) {
            fprintf(out, "            3:%s)\n", actions->name);
            put_bash_words(out, actions->offers, actions->asks);
            fputs("            ;;\n", out);
        }
    }
    fputs("            esac\n", out);
}

static void put_bash_command(FILE *out, const struct pst_command *command)
{
    bool any = false;

    fprintf(out, "        %s)\n            options=\"", command->name);
    put_names(out, command->options, command->n_options);
    fputs("\"\n            valued=\"@(", out);
    put_valued(out, command->options, command->n_options, &any);
    put_valued(out, pst_common_options, pst_n_common_options, &any);
    fputs(")\"\n", out);
    put_bash_words(out, command->offers, command->asks);
    if (command->actions != NULL) {
        put_bash_actions(out, command->actions);
    }
    fputs("            ;;\n", out);
}

static void put_bash(const struct pst_manual *manual, FILE *out)
{
    fputs(
        "_penstock() {\n    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    local options='' words='' valued='' common=\"",
        out);
    put_names(out, pst_common_options, pst_n_common_options);
    fputs("\" commands=\"help", out);
    for (uint32_t i = 0; i < manual->n_commands; i++) {
        fprintf(out, " %s", manual->commands[i]->name);
    }
    fputs("\"\n    COMPREPLY=()\n    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n        "
          "return\n    fi\n"
          "    case ${COMP_WORDS[1]} in\n        help) words=$commands ;;\n",
          out);
    for (uint32_t i = 0; i < manual->n_commands; i++) {
        put_bash_command(out, manual->commands[i]);
    }
    fputs("    esac\n"
          /* bash takes the word apart at "=", zsh does not. */
          "    local key='' at=$((COMP_CWORD - 1))\n"
          "    [[ $cur == = ]] && cur=''\n"
          "    [[ ${COMP_WORDS[COMP_CWORD]} != = && $prev == = ]] && at=$((COMP_CWORD - 2))\n"
          "    if ((at < COMP_CWORD - 1)) || [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then\n"
          "        key=${COMP_WORDS[at]}= at=$((at - 1))\n"
          "    fi\n"
          "    if [[ ${COMP_WORDS[at]} == --set ]]; then\n"
          "        local offered=\"$(penstock help --sets \"$key$cur\" 2>/dev/null)\"\n"
          "        COMPREPLY=(${offered//$'\\n'$key/$'\\n'})\n"
          "        COMPREPLY[0]=${COMPREPLY[0]#\"$key\"}\n"
          "        [[ -z $offered ]] && COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "        [[ $offered == *= ]] && compopt -o nospace 2>/dev/null\n"
          "    elif [[ $prev == --color ]]; then\n"
          "        COMPREPLY=($(compgen -W 'auto always never' -- \"$cur\"))\n"
          "    elif [[ -n $valued && $prev == $valued ]]; then\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    elif [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options $common\" -- \"$cur\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
          "    fi\n}\ncomplete -o filenames -F _penstock penstock\n",
          out);
}

/* Within single quotes; no text has such itself. */
static void put_fish_option(FILE *out, const char *condition, const struct pst_option *option)
{
    fprintf(out, "complete -c penstock -n '%s' -l %s", condition, option->name);
    if (option->letter != 0) {
        fprintf(out, " -s %c", option->letter);
    }
    fprintf(out, "%s -d \"%s\"\n", option->value_name != NULL ? " -r" : "", option->doc);
}

static void put_fish_words(FILE *out, const char *condition, const char *offers, const char *asks)
{
    if (offers != NULL) {
        fprintf(out, "complete -c penstock -n '%s' -a '%s'\n", condition, offers);
    }
    if (asks != NULL) {
        fprintf(out, "complete -c penstock -n '%s' -a '(penstock help --ids %s)'\n", condition,
                asks);
    }
}

static void put_fish_actions(FILE *out, const char *condition, const struct pst_action *actions)
{
    char after[160];

    fprintf(out, "complete -c penstock -n '%s; and not __fish_seen_subcommand_from ", condition);
    put_action_names(out, actions);
    fputs("' -a '", out);
    put_action_names(out, actions);
    fputs("'\n", out);
    for (; actions->name != NULL; actions++) {
        snprintf(after, sizeof after, "%s; and __fish_seen_subcommand_from %s", condition,
                 actions->name);
        put_fish_words(out, after, actions->offers, actions->asks);
    }
}

static void put_fish(const struct pst_manual *manual, FILE *out)
{
    for (uint32_t i = 0; i < manual->n_commands; i++) {
        const struct pst_command *command = manual->commands[i];
        char condition[96];

        snprintf(condition, sizeof condition, "__fish_seen_subcommand_from %s", command->name);
        fprintf(out, "complete -c penstock -n __fish_use_subcommand -a %s -d \"%s\"\n",
                command->name, command->summary);
        for (uint32_t k = 0; k < command->n_options; k++) {
            put_fish_option(out, condition, &command->options[k]);
        }
        put_fish_words(out, condition, command->offers, command->asks);
        if (command->actions != NULL) {
            put_fish_actions(out, condition, command->actions);
        }
    }
    for (uint32_t i = 0; i < pst_n_common_options; i++) {
        put_fish_option(out, "not __fish_use_subcommand", &pst_common_options[i]);
    }
    fputs("complete -c penstock -n 'not __fish_use_subcommand' -l set -x "
          "-a '(penstock help --sets (commandline -ct))'\n",
          out);
}

bool pst_manual_completion(const struct pst_manual *manual, const char *shell, FILE *out)
{
    if (strcmp(shell, "fish") == 0) {
        put_fish(manual, out);
        return true;
    }
    if (strcmp(shell, "zsh") == 0) {
        fputs("#compdef penstock\nautoload -U +X bashcompinit && bashcompinit\n", out);
    }
    if (strcmp(shell, "zsh") == 0 || strcmp(shell, "bash") == 0) {
        put_bash(manual, out);
        return true;
    }
    return false;
}

/* --- files -------------------------------------------------------------------------------------*/

/* The page of a command (NULL: of the program), or the completion of a shell. */
static pst_status put_file(const struct pst_manual *manual, const struct pst_command *command,
                           const char *shell, char *path, struct pst_error *err)
{
    char *text = NULL, *name;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    pst_status status;

    if (out == NULL) {
        pst_out_of_memory();
    }
    if (shell != NULL) {
        pst_manual_completion(manual, shell, out);
    } else {
        pst_manual_page(manual, command, out);
    }
    if (fclose(out) != 0) {
        pst_out_of_memory();
    }
    name = strrchr(path, '/');
    *name = '\0';
    status = pst_folder_make(path, "the folder", err);
    *name = '/';
    PST_TRY(status, pst_file_write(path, text, length, err));
    free(text);
    free(path);
    return status;
}

pst_status pst_manual_install(const struct pst_manual *manual, const char *folder,
                              struct pst_error *err)
{
    static const char *const shells[][2] = {{"bash", "bash-completion/completions/penstock"},
                                            {"zsh", "zsh/site-functions/_penstock"},
                                            {"fish", "fish/vendor_completions.d/penstock.fish"}};
    pst_status status =
        put_file(manual, NULL, NULL, pst_printf("%s/man/man1/penstock.1", folder), err);

    for (uint32_t i = 0; status == PST_OK && i < manual->n_commands; i++) {
        status = put_file(
            manual, manual->commands[i], NULL,
            pst_printf("%s/man/man1/penstock-%s.1", folder, manual->commands[i]->name), err);
    }
    for (uint32_t i = 0; status == PST_OK && i < 3; i++) {
        status =
            put_file(manual, NULL, shells[i][0], pst_printf("%s/%s", folder, shells[i][1]), err);
    }
    return status;
}
