"""Writes figures.json: what is made of counts of classes and of scores, in NumPy.

    python3 -m venv ../venv && ../venv/bin/pip install numpy torch scikit-learn && ../venv/bin/python tests/reference/make_figures.py

Where scikit-learn is installed, its confusion matrix, accuracy, precision, recall,
F1 and Jaccard index must be the same. README.md here explains the file;
tests/reference/figure_reference_test.cpp, plugins/stages/write_images/write_quality_test.cpp and
plugins/stages/write_boundaries/write_boundaries_test.cpp read it.
"""
import numpy

import figure_formulas as formulas
import reference_values as reference

# (classes, samples, amount by which the correct class's output is raised, classes that never occur)
CASES = [(2, 50, 0.5, ()), (5, 400, 1.5, ()), (11, 3000, 2.0, (3, 10)), (7, 64, 30.0, (0,)), (3, 20, -2.0, ())]


def agree_with_sklearn(labels, predicted, classes, matrix, by_class):
    try:
        from sklearn import metrics
    except ImportError:
        print("scikit-learn is not installed: not compared")
        return
    numbers = list(range(classes))
    assert numpy.array_equal(matrix, metrics.confusion_matrix(labels, predicted, labels=numbers))
    assert abs(matrix.diagonal().sum() / matrix.sum() - metrics.accuracy_score(labels, predicted)) < 1e-12
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(labels, predicted, labels=numbers, zero_division=0)
    iou = metrics.jaccard_score(labels, predicted, labels=numbers, average=None, zero_division=0)
    for name, theirs in dict(precision=precision, recall=recall, f1=f1, iou=iou).items():
        assert numpy.allclose(by_class[name], theirs, rtol=0, atol=1e-12), name


def image(height, width, channels, phase):
    """Pixels of a picture with slopes and grain, (H, W, C): README.md here has the formula."""
    grain = reference.values([height, width, channels], phase, 40.0).numpy()
    y, x, c = numpy.mgrid[:height, :width, :channels]
    return numpy.clip(numpy.floor(60.0 + 4.0 * y + 3.0 * x + 20.0 * c + grain), 0, 255)


# height, width, channels, luminance, border
PICTURES = [(24, 17, 1, False, 0), (20, 31, 3, False, 0), (26, 22, 3, True, 0), (30, 28, 3, True, 4), (11, 11, 1, False, 0)]


def picture(number, height, width, channels, luminance, border):
    first = 500 * number + 120000
    images = [image(height, width, channels, first + i) for i in range(2)]
    planes = [i[border : height - border, border : width - border] for i in images]
    if luminance:
        planes = [formulas.luminance_of(p) for p in planes]
    return dict(
        shape=[height, width, channels], phase=first, luminance=luminance, border=border,
        psnr=formulas.signal_to_noise_ratio(*planes), ssim=formulas.similarity(*planes),
    )


# height, width, classes, rows and columns of the prediction's shift, tolerance
BOUNDARIES = [(40, 30, 3, 0, 1, 0.0075), (60, 80, 4, 2, 1, 0.02), (48, 64, 11, 1, 3, 0.03), (33, 21, 200, 0, 0, 0.05)]


def boundary(height, width, classes, down, right, tolerance):
    y, x = numpy.mgrid[:height, :width]

    def class_at(y, x):
        return ((3 * y + 2 * x) // 11 + y // 7 * (x // 9)) % classes

    nothing = (y + 2 * x) % 37 == 0
    truth = class_at(y, x)
    predicted = (class_at(y + down, x + right) + ((7 * y + 13 * x) % 29 == 0)) % classes

    figures = formulas.boundary_f1(truth, predicted, ~nothing, classes, tolerance)
    return dict(height=height, width=width, classes=classes, down=down, right=right, tolerance=tolerance, f1=figures)


def case(number, classes, samples, raised, missing):
    first = 1000 * number + 90000
    present = numpy.array([c for c in range(classes) if c not in missing])
    draws = reference.values([samples], first, 0.5, 0.5).numpy()
    labels = present[numpy.minimum((draws * len(present)).astype(int), len(present) - 1)]
    outputs = reference.values([samples, classes], first + 1, 3.0).numpy()
    outputs[numpy.arange(samples), labels] += raised
    outputs = outputs.astype(numpy.float32).astype(float)
    predicted = outputs.argmax(1)
    matrix = numpy.zeros((classes, classes), dtype=int)
    numpy.add.at(matrix, (labels, predicted), 1)
    scores = formulas.softmax(outputs)
    by_class, figures = formulas.class_figures(matrix)
    agree_with_sklearn(labels, predicted, classes, matrix, by_class)
    figures["calibration_error"] = formulas.calibration_error(scores.max(1), predicted == labels)
    return dict(
        classes=classes, samples=samples, phase=first + 1, scale=3.0, raised=raised, labels=labels.tolist(),
        matrix=matrix.reshape(-1).tolist(), by_class={name: values.tolist() for name, values in by_class.items()},
        figures={name: float(value) for name, value in figures.items()},
    )


if __name__ == "__main__":
    reference.write("figures.json", [case(number, *of) for number, of in enumerate(CASES, 1)], numpy=numpy.__version__,
                    pictures=[picture(number, *of) for number, of in enumerate(PICTURES, 1)],
                    boundaries=[boundary(*of) for of in BOUNDARIES])
