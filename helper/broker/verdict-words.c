/* What is said when an approval was not given, see verdict-words.h. */
#include "broker/verdict-words.h"

/* Each way of not being allowed in its own words. */
static const struct verdict_words words[] = {
    [VERDICT_DENIED] = { "denied", "Denied", "This machine's policy does not allow ", ".",
                         "Ask the administrator for a polkit rule." },
    [VERDICT_NOT_ASKED] = { "approval-required", "ApprovalRequired", "Approval is needed for ",
                            ", and nobody was to be asked.",
                            "Run it without --no-ask-password, or within the defaults, which "
                            "'sbxctl policy' shows." },
    [VERDICT_BUSY] = { "busy", "ApprovalBusy", "Approval is needed for ",
                       ", and another dialog of yours is open.",
                       "Answer that one first, then try again." },
    [VERDICT_NO_AGENT] = { "no-agent", "ApprovalRequired", "Approval is needed for ",
                           ", and there is nobody to ask: no desktop and no terminal.",
                           "Run it in a terminal, or within the defaults, which 'sbxctl policy' "
                           "shows; or ask the administrator for a polkit rule." },
    [VERDICT_NOT_GIVEN] = { "refused", "Denied", "Approval of ",
                            " was refused, or the password was wrong.",
                            "Try again, or run it within the defaults, which 'sbxctl policy' "
                            "shows." },
    [VERDICT_DISMISSED] = { "dismissed", "Denied", "The dialog about ", " was dismissed.",
                            "Run it again to be asked again, or within the defaults, which 'sbxctl "
                            "policy' shows." },
    [VERDICT_TIMED_OUT] = { "timed-out", "Denied", "Nobody answered the dialog about ", ".",
                            "Run it again to be asked again." },
    [VERDICT_UNAVAILABLE] = { "unavailable", "Denied",
                              "polkit did not answer, so nobody could approve ", ".",
                              "Ask the administrator to look at polkit: systemctl status polkit" },
    [VERDICT_UNIDENTIFIED] = { "unidentified", "Denied",
                               "The calling process cannot be identified safely, so nobody could "
                               "approve ",
                               ".",
                               "Call from a process that waits for the answer, and of a user whose "
                               "number is below 2147483648." },
};

const struct verdict_words *verdict_words(enum verdict verdict)
{
    return &words[verdict];
}
