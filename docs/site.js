// A button on each page that cites rulings shows their ids, and hides them again.
document.addEventListener("DOMContentLoaded", () => {
  const first = document.querySelector(".ruling");
  const heading = document.querySelector("article h1");
  if (!first || !heading) return;
  const root = document.documentElement;
  const button = document.createElement("button");
  button.className = "rulings-toggle";
  const show = (shown) => {
    root.classList.toggle("rulings", shown);
    button.textContent = shown ? "Hide rulings" : "Show rulings";
    button.setAttribute("aria-pressed", shown);
    localStorage.setItem("rulings", shown ? "1" : "");
  };
  button.addEventListener("click", () => show(!root.classList.contains("rulings")));
  heading.before(button);
  show(localStorage.getItem("rulings") === "1");
});
