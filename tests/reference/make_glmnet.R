# Makes patients.csv and glmnet.json: what R finds for the problems that our solver solves, too.
#
#   Rscript tests/reference/make_glmnet.R tests/reference
#
# Made with R 4.2.2, glmnet 4.1-6 and survival 3.5-3 (Debian 12: r-cran-glmnet, r-cran-survival).

suppressPackageStartupMessages({
  library(glmnet)
  library(survival)
})
folder <- commandArgs(trailingOnly = TRUE)[1]
set.seed(20)

n <- 1500
rules <- sapply(c(0.2, 0.35, 0.5, 0.5, 0.6, 0.8), function(share) rbinom(n, 1, share))
linear <- round(0.5 * matrix(rnorm(3 * n), n), 4)
X <- cbind(rules, linear)
colnames(X) <- c(paste0("rule", 1:6), paste0("linear", 1:3))
effect <- drop(X %*% c(0.6, -0.5, 0.4, 0, 0, 0.1, 0.5, -0.3, 0))
years <- round(runif(n, 0.2, 2), 3)
due <- rexp(n, 0.4 * exp(effect)) ^ 0.9
news <- runif(n, 0.5, 6)
data <- data.frame(
  X,
  number = round(20 + 6 * effect + 4 * rnorm(n), 3),
  count = rpois(n, 2 * years * exp(effect)),
  years = years,
  yes = rbinom(n, 1, plogis(effect - 0.3)),
  # Never at a cut: no interval's end decides to which of two an event belongs.
  time = round(pmin(due, news, 4.99), 3) + 0.0005,
  event = as.integer(due <= pmin(news, 4.99))
)
data$number <- pmin(pmax(data$number, -20), 60)
# Levels: 0 to 3 in an order, and 0 to 2 in none (of an odd number of classes the optimum is one).
data$grade <- findInterval(effect + rlogis(n), c(-0.6, 0.5, 1.6))
pulls <- cbind(0, effect, 0.4 - 1.2 * X[, "rule2"] + 0.6 * X[, "rule5"] - 0.8 * X[, "linear3"])
data$class <- max.col(pulls - log(-log(matrix(runif(3 * n), n))), "first") - 1
write.csv(data, file.path(folder, "patients.csv"), row.names = FALSE)

# --- the lasso, at given penalties --------------------------------------------------------------

lasso <- function(x, y, family, lambda, ...) {
  # Alone, a small penalty is reached only with a path down to it.
  path <- lambda * c(100, 30, 10, 5, 3, 2, 1.5, 1.2, 1)
  fit <- glmnet(
    x, y, family = family, lambda = path, standardize = FALSE,
    thresh = 1e-20, maxit = 1e8, control = NULL, ...
  )
  as.numeric(coef(fit, s = lambda))
}
glmnet.control(fdev = 0, devmax = 1, mnlam = 9)

of_number <- lapply(c(0.6, 0.2, 0.02), function(lambda) {
  list(lambda = lambda, coef = lasso(X, data$number, "gaussian", lambda))
})
of_count <- lapply(c(0.3, 0.05, 0.01), function(lambda) {
  list(lambda = lambda, coef = lasso(X, data$count, "poisson", lambda, offset = log(data$years)))
})
of_yes <- lapply(c(0.03, 0.01, 0.002), function(lambda) {
  list(lambda = lambda, coef = lasso(X, data$yes, "binomial", lambda))
})

# --- levels: all classes at once, and in an order a row per patient and step --------------------

of_classes <- lapply(c(0.03, 0.01, 0.002), function(lambda) {
  path <- lambda * c(100, 30, 10, 5, 3, 2, 1.5, 1.2, 1)
  fit <- glmnet(
    X, factor(data$class), family = "multinomial", lambda = path, standardize = FALSE,
    thresh = 1e-20, maxit = 1e8
  )
  found <- sapply(coef(fit, s = lambda), as.numeric) # a column per class
  list(lambda = lambda, coef = as.vector(t(found))) # the intercepts of all classes first
})
tried <- do.call(rbind, lapply(1:3, function(k) {
  own <- data$grade >= k - 1
  cbind(X[own, ], step = k, goes = as.integer(data$grade[own] >= k))
}))
steps <- sapply(1:3, function(k) as.integer(tried[, "step"] == k))
of_ordered <- lapply(c(0.03, 0.01, 0.002), function(lambda) {
  found <- lasso(
    cbind(steps, tried[, colnames(X)]), tried[, "goes"], "binomial",
    lambda * n / nrow(tried) * 9 / 12, intercept = FALSE,
    penalty.factor = c(rep(0, 3), rep(1, 9))
  )
  list(lambda = lambda, coef = found[-1])
})

# --- times: a row per patient and interval, and Cox ---------------------------------------------

ends <- c(0, 0.5, 1, 2, 3, 5)
shortest <- 5 / 64 # the least share of an interval that an event's own part counts
rows <- survSplit(
  Surv(time, event) ~ ., data[, c(colnames(X), "time", "event")], cut = ends[2:5],
  episode = "interval"
)
rows$share <- (rows$time - rows$tstart) / diff(ends)[rows$interval]
rows$counted <- ifelse(rows$event == 1, pmax(rows$share, shortest), rows$share)
parts <- sapply(1:5, function(k) as.integer(rows$interval == k))
colnames(parts) <- paste0("part", 1:5)
of_time <- lapply(c(0.02, 0.004, 0.0005), function(lambda) {
  # Our mean is over patients, glmnet's over rows; and it scales penalty factors to a mean of 1.
  found <- lasso(
    cbind(parts, as.matrix(rows[, colnames(X)])), rows$event, "poisson", lambda * n / nrow(rows) * 9 / 14,
    offset = log(rows$counted), intercept = FALSE,
    penalty.factor = c(rep(0, 5), rep(1, 9))
  )
  list(lambda = lambda, coef = found[-1])
})
terms <- paste(colnames(X), collapse = " + ")
cox <- coxph(
  as.formula(paste("Surv(time, event) ~", terms)), data, ties = "efron",
  control = coxph.control(eps = 1e-12, toler.chol = 1e-13, iter.max = 50)
)
piecewise <- glm(
  as.formula(paste("event ~ 0 + factor(interval) + offset(log(share)) +", terms)), poisson, rows,
  control = glm.control(epsilon = 1e-14, maxit = 100)
)

# --- as JSON ------------------------------------------------------------------------------------

numbers <- function(x) paste0("[", paste(sprintf("%.12g", x), collapse = ", "), "]")
paths <- function(found) {
  lines <- sapply(found, function(one) {
    sprintf('    {"lambda": %g, "coef": %s}', one$lambda, numbers(one$coef))
  })
  paste0("[\n", paste(lines, collapse = ",\n"), "\n  ]")
}
writeLines(sprintf(
  '{\n  "number": %s,\n  "count": %s,\n  "yes/no": %s,\n  "classes": %s,\n  "ordered": %s,\n  "time": %s,\n  "ends": %s,\n  "cox": %s,\n  "piecewise": %s\n}',
  paths(of_number), paths(of_count), paths(of_yes), paths(of_classes), paths(of_ordered), paths(of_time), numbers(ends),
  numbers(coef(cox)), numbers(coef(piecewise))
), file.path(folder, "glmnet.json"))
