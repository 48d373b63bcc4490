"""A CNN on scikit-learn's digits, with batch normalization and dropout."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from traingraph import nn

x, y = load_digits(return_X_y=True)
x = x.reshape(-1, 1, 8, 8) / 16
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)


def convolution(channels):
    return nn.sequential([nn.conv2d(channels, 3), nn.batch_norm(), "relu", nn.max_pool(2)])


model = nn.model(
    [convolution(32), convolution(64), nn.flatten(), nn.dropout(0.5), nn.dense(10)],
    input=(1, 8, 8),
)
model.fit(x_train, y_train, epochs=15, on_epoch=print)
accuracy = model.evaluate(x_test, y_test).accuracy
print(f"accuracy on held-back data {accuracy:.3f}")
