"""An MLP on scikit-learn's digits."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from traingraph import nn

x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x / 16, y, test_size=0.2, random_state=0)
model = nn.model([nn.dense(64), "relu", nn.dense(10)], input=64)
model.fit(x_train, y_train, epochs=30)
accuracy = model.evaluate(x_test, y_test).accuracy
print(f"accuracy {accuracy:.3f}")
